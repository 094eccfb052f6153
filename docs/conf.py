"""How Sphinx builds these pages."""

from onnx_inline import __version__
from onnx_inline.passes.table import known_passes
from onnx_inline.reports.pass_list import pass_dict

project = "onnx-inline"
author = "the onnx-inline authors"
copyright = author
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
html_theme = "furo"
html_title = "onnx-inline"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = True
nitpicky = False


def passes_table() -> str:
    """Return every pass, with its options and their defaults, as a table in Markdown."""
    lines = ["| pass | from | what it does | options |", "|---|---|---|---|"]
    for entry in known_passes().values():
        facts = pass_dict(entry)
        options = "; ".join(
            f"`{option['name']}`" + (f" = `{option['default']}`" if "default" in option else " (required)")
            for option in facts["options"]
        )
        summary = (facts["summary"] or facts.get("fault", "")).replace("``", "`")
        lines.append(f"| `{entry.name}` | {entry.origin} | {summary} | {options} |")
    return "\n".join(lines)


myst_substitutions = {"passes": passes_table()}
