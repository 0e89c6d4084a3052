"""Charts as inline SVG: no script, no colour that carries meaning alone, one title and one description each."""
