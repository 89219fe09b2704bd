"""Register structures of real kernels beside the lab's: slots are paired, and what is said of them follows from the rows."""

from tramplab.ftrace.releases import nearest
from tramplab.sparsity.structures.classify import GARBAGE, TRUE, Slot
from tramplab.sparsity.structures.fields import Place
from tramplab_book.studies.sparsity import real_frames
from tramplab_book.studies.sparsity.register_frames import ABSENT


def kernel_slot(name, offset=0, kind=TRUE, rule="", size=8):
    return {"slot": name, "offset": offset, "size": size, "kind": kind, "rule": rule}


def test_slots_are_paired_by_name_and_then_by_place():
    lab = {name: Slot(name, TRUE) for name in ("moved", "unused", "gone")}
    at = (Place(0, 8, "moved"), Place(8, 8, "unused"), Place(16, 8, "gone"))
    there_ = [kernel_slot("moved", 32), kernel_slot("direct_tramp", 8, GARBAGE), kernel_slot("more", 16, size=4)]
    found = {p["slot"]: (p["kernel_kind"], p["lab_kind"], p["same"]) for p in real_frames.paired(there_, lab, at)}
    assert found == {
        "moved": (TRUE, TRUE, True),
        "direct_tramp": (GARBAGE, TRUE, False),
        "more": (TRUE, ABSENT, False),
        "gone": (ABSENT, TRUE, False),
    }


def test_a_slot_of_another_rule_is_another():
    lab = {"sp": Slot("sp", "derived", "sp - 16")}
    (one,) = real_frames.paired([kernel_slot("sp", kind="derived", rule="sp - 32")], lab, (Place(0, 8, "sp"),))
    assert not one["same"]


def test_what_is_quoted_follows_from_the_rows():
    rows = real_frames.rows()
    assert (rows["same"] == ((rows["kernel_kind"] == rows["lab_kind"]) & (rows["kernel_rule"] == rows["lab_rule"]))).all()
    n = real_frames.numbers(rows)
    assert n["slots-same"] < n["slots-total"] == len(rows) == real_frames.numbers(rows.assign(same=True))["slots-same"]
    place = (rows["kernel"] == "7.2-arm64") & (rows["provider"] == "ftrace_caller") & (rows["slot"] == "x3")
    other = rows.assign(same=rows["same"] & ~place, kernel_kind=rows["kernel_kind"].where(~place, GARBAGE))
    assert real_frames.numbers(other)["slots-same"] == n["slots-same"] - 1
    lines = real_frames.table(other)
    assert len(lines) == len(real_frames.table(rows)) + 1
    line = lines[(lines["image"] == "7.2-arm64") & (lines["provider"] == "- x3")]
    assert line[["lab", "kernel"]].to_numpy().tolist() == [[TRUE, GARBAGE]]


def test_the_lab_is_of_the_same_release_where_it_has_the_provider():
    rows = real_frames.rows()
    for row in rows.drop_duplicates(["kernel", "provider"]).itertuples():
        usual = row.provider not in ("return_to_handler", "arch_rethook_trampoline")
        assert row.lab_release == nearest(row.release) or not usual
    there_ = rows[(rows["kernel"] == "6.12-amd64") & (rows["provider"] == "return_to_handler")]
    assert set(there_["lab_release"]) == {"v6.16"}
