"""The book's own Sphinx extension: how pages are executed, files beside them, other forms, permalinks, citations."""

import book_accessibility
import book_cite
import book_downloads
import book_edition
import book_errors
import book_forked_kernels
import book_generated
import book_kernels
import book_notebooks
import book_parallel
import book_permalinks
import book_prompts
import book_search
import book_text
import book_title
import book_weight


def setup(app):
    """Register everything that the book adds to Sphinx, in the order in which it is to act."""
    # Jupyter Book always sets this option of sphinx_comments, which _config.yml leaves out; unknown, it would warn.
    app.add_config_value("comments_config", {}, "")
    book_errors.setup(app)
    book_kernels.setup(app)
    book_forked_kernels.setup(app)
    book_parallel.setup(app)
    book_generated.setup(app)
    book_permalinks.setup(app)
    book_text.setup(app)
    book_prompts.setup(app)
    book_title.setup(app)
    book_search.setup(app)
    book_notebooks.setup(app)
    book_downloads.setup(app)
    book_cite.setup(app)
    book_edition.setup(app)
    book_accessibility.setup(app)
    book_weight.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
