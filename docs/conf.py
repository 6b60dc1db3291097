"""How Sphinx draws the site (`scripts/build_site.py` runs it; decision 0072). Nothing on it asks a network for anything."""

project = "Osmosis"
extensions = ["myst_parser"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# `--name` is two hyphens.
smartquotes = False

add_module_names = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

html_theme = "furo"
html_title = "Osmosis"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
# A summary of what was found would be fetched, which browsers refuse to pages that were opened from a disk.
html_show_search_summary = False
html_theme_options = {"navigation_with_keys": True}
