"""A page that shows how pipelines stand: `facts` reads their tables, `charts` draws, `page` writes the HTML."""
