"""smartnoise-sql 1.0.10: counts by a key that one row alone may have."""

PACKAGE, VERSIONS = "smartnoise-sql", ("1.0.10",)
PYTHON, WITH = "3.11", ("opendp==0.14.2", "numpy==2.2.6", "pandas==2.3.3", "SQLAlchemy==2.0.58")

RELATION = "add_remove"
LEFT, RIGHT = ["a", "a", "a"], ["a", "a", "a", "b"]
TRIALS = 400
CLAIMED = "what `get_privacy_cost` says of `SELECT x, COUNT(*) AS n FROM t.t GROUP BY x` at epsilon 1 and delta 0.05"

QUERY = "SELECT x, COUNT(*) AS n FROM t.t GROUP BY x"


def reader(rows):
    import pandas as pd
    from snsql import Privacy, from_connection

    table = {"row_privacy": True, "rows": 4, "x": {"type": "string"}}
    privacy = Privacy(epsilon=1.0, delta=0.05)
    return from_connection(pd.DataFrame({"x": rows}), privacy=privacy, metadata={"": {"t": {"t": table}}})


def claim():
    epsilon, delta = reader(RIGHT).get_privacy_cost(QUERY)
    return {"epsilon": str(float(epsilon)), "delta": str(round(float(delta), 6))}


def mechanism(rows):
    counts = dict(reader(rows).execute(QUERY)[1:])
    return [counts.get("a"), counts.get("b")]
