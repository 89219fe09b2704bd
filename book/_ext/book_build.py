"""jupyter-book, started a second sooner: `python book_build.py build ...` for `jupyter-book build ...`.

jsonschema imports rfc3987_syntax where that is installed (JupyterLab brings it), which builds large grammars. They are for
addresses in settings, of which a book has none to check, so here they are not found.

And each study's rows are made once for all pages, see lib/tramplab/studies/once.py: they are kept in a folder that goes with
the build, so that the next one makes them again.

And this machine is timed before anything else runs, unless it has been, because pages are executed side by side.
"""

import os
import sys
import tempfile

sys.modules["rfc3987_syntax"] = None

from jupyter_book.cli.main import main

from tramplab.native import kept

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tramplab-rows-") as folder:
        kept.main()
        os.environ["TRAMPLAB_ROWS"] = folder
        sys.exit(main())
