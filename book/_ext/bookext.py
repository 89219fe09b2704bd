"""The book's own Sphinx extension: how pages are executed, files beside them, plain text."""

import book_cite
import book_files
import book_kernels
import book_text


def setup(app):
    # Jupyter Book always sets this option of sphinx_comments, which _config.yml leaves out; unknown, it would warn.
    app.add_config_value("comments_config", {}, "")
    book_kernels.setup(app)
    book_files.setup(app)
    book_text.setup(app)
    book_cite.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
