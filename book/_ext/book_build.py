"""jupyter-book, started a second sooner: `python book_build.py build ...` for `jupyter-book build ...`.

jsonschema imports rfc3987_syntax where that is installed (JupyterLab brings it), which builds large grammars. They are for
addresses in settings, of which a book has none to check, so here they are not found.
"""

import sys

sys.modules["rfc3987_syntax"] = None

from jupyter_book.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
