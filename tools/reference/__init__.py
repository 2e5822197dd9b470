"""The generated parts of the documentation: text in Markdown, made from the code at each build."""
