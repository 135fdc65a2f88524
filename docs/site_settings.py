"""The settings of the site's builder, Sphinx."""

project = "Recapito"
copyright = "the authors of Recapito"
extensions = ["myst_parser", "sphinx_copybutton"]
html_theme = "furo"
html_title = "Recapito"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
myst_heading_anchors = 4  # as code hosts make them
myst_enable_extensions = ["colon_fence"]
copybutton_exclude = ".linenos, .gp, .go"
