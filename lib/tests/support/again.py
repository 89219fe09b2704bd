"""What a run leaves out that another one of .ci/run does; a plugin of pytest.

--determinism runs what shows that two processes make the same bytes of one tree. It is left out otherwise: .ci/run has it, and
compares two whole books besides.

--again is for a second run, from what the first one kept: images, objects, rows of grids and this machine's times; and there is
now the book that `make book` built. So every test that compiles, counts, times or looks at a page's content runs again. Those in
these files build small books, kernel images of their own or lab kernels that are broken on purpose, start processes, ask the
emulator itself, or try out what scripts and menus do, which is the same in any book; or they open every page in a browser, as the
first run did with a book of the same bytes, which .ci/run compares.
"""

FILES = frozenset(
    "test_accessibility test_failed_builds test_jobs test_pages test_redirects test_small_books test_stepper_page"
    " test_stopped_builds test_unicorn_behaviour test_unicorn_counting test_unicorn_memory test_weight"
    " test_mutants test_saving_mutants test_bpf_mutants"
    " test_bad_images test_btf test_debian test_debian_list test_debian_sources test_hooks_real test_image"
    " test_kallsyms test_own_builds test_packing test_payload test_refused test_relocate".split()
)
DETERMINISM = frozenset(
    (
        "test_another_process_says_the_same",
        "test_charts_are_the_same_bytes_in_every_process",
        "test_two_processes_give_identical_rows",
    )
)


def pytest_addoption(parser):
    parser.addoption("--determinism", action="store_true", help="run also what shows that all processes make the same bytes")
    parser.addoption("--again", action="store_true", help="leave out what cannot end in another way the second time")


def pytest_collection_modifyitems(config, items):
    left = [
        item
        for item in items
        if (config.option.again and item.path.stem in FILES) or (not config.option.determinism and item.name in DETERMINISM)
    ]
    config.hook.pytest_deselected(items=left)
    kept = set(items) - set(left)
    items[:] = [item for item in items if item in kept]
