"""How explanations and tables write times."""


def time_text(seconds: float) -> str:
    """3 s, 2 min, 5 h, 3 d"""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
