"""What real kernels' unwinders find, beside the lab's: what is said of it follows from the rows."""

from tramplab.vmlinux.saved.walks_saved import ENTRY
from tramplab_book.studies.kernels import kernel_walks


def test_what_is_quoted_follows_from_the_rows():
    rows = kernel_walks.rows()
    n = kernel_walks.numbers(rows)
    assert n["same"] == n["compared"] - 1 < n["walks"] and n["x86-answers-same"] == n["x86-answers"] - 1
    (other,) = rows[rows["lab"] & ~rows["same"]].to_dict("records")
    assert (other["kernel"], other["hook"], other["place"], other["lab_refused"]) == ("7.2-amd64", "kprobe-brk", ENTRY, True)
    one = (rows["kernel"] == "7.2-arm64") & (rows["hook"] == "ops") & (rows["place"] == ENTRY)
    spoilt = rows.assign(same=rows["same"] & ~one, reliable=rows["reliable"].where(~one, kernel_walks.REFUSED))
    assert kernel_walks.numbers(spoilt)["same"] == n["same"] - 1
    lines = kernel_walks.table(spoilt)
    (line,) = lines[(lines["image"] == "7.2-arm64") & (lines["hooks"] == "ops")].to_dict("records")
    assert (line["entry"], line["asleep"], line["lab"]) == ("RRR !", "RRR +", "entry: RRR")


def test_bpf_is_told_by_release():
    rows = kernel_walks.rows()
    through = rows[(rows["isa"] == "x86_64") & rows["generated"]]
    assert {*through.loc[through["reliable"] == kernel_walks.REFUSED, "release"]} == {"v6.1", "v6.12"}
    assert (through["lab_refused"] == (through["reliable"] == kernel_walks.REFUSED)).all()
