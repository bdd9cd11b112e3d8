"""assay/10: Labels from a template (tokenizer, filters)."""

# --- prompt ---
from collections.abc import Iterator


def render_label(template: str, values: dict[str, str]) -> str:
    """Fill the fields of a label template.

    A field is written in braces: a name, then any number of filters, each after a "|". Spaces
    around the name and the filters are ignored. "{{" and "}}" stand for single braces outside a
    field. The filters work on the text so far, from left to right:

        upper     in capitals
        pad:N     with spaces added on the right up to N characters
        zero:N    with zeros added on the left up to N characters
        cut:N     if longer than N characters, the first N - 1 of them and a "~"
        or:TEXT   TEXT if the text so far is empty

    N is a whole number of at least 1 in ASCII digits. A name that is not in `values` has the
    empty text. Raise ValueError for a brace without its partner, a brace inside a field, a
    field without a name, an unknown filter, or a filter whose argument is missing, unwanted or
    malformed. The TEXT of "or" may be empty, but its colon is needed.

    >>> render_label("{{{name|upper|pad:6}}} no. {lot|zero:4}", {"name": "rye", "lot": "72"})
    '{RYE   } no. 0072'
    """
    # --- solution ---
    parts = []
    for kind, text in tokenize(template):
        parts.append(fill_field(text, values) if kind == "field" else text)
    return "".join(parts)


def tokenize(template: str) -> Iterator[tuple[str, str]]:
    """Yield ("text", literal text) and ("field", what a field's braces hold)."""
    position = 0
    while position < len(template):
        char = template[position]
        if char not in "{}":
            end = position
            while end < len(template) and template[end] not in "{}":
                end += 1
            yield "text", template[position:end]
            position = end
        elif template[position : position + 2] == char * 2:
            yield "text", char
            position += 2
        else:
            end = template.find("}", position)
            field = template[position + 1 : end]
            if char == "}" or end < 0 or "{" in field:
                raise ValueError(f"a brace has no partner at {position}")
            yield "field", field
            position = end + 1


def fill_field(field: str, values: dict[str, str]) -> str:
    """Return the text of a field after its filters."""
    name, *filters = (part.strip() for part in field.split("|"))
    if not name:
        raise ValueError("a field has no name")
    text = values.get(name, "")
    for written in filters:
        text = apply_filter(text, written)
    return text


def read_width(argument: str) -> int:
    """Return the number of characters that an argument gives."""
    if not (argument.isascii() and argument.isdecimal()) or int(argument) < 1:
        raise ValueError(f"not a width: {argument!r}")
    return int(argument)


def apply_filter(text: str, written: str) -> str:
    """Apply one filter, such as "pad:8", to a text."""
    name, colon, argument = written.partition(":")
    if name == "upper" and not colon:
        return text.upper()
    if name == "or" and colon:
        return text or argument
    if name not in ("pad", "zero", "cut"):
        raise ValueError(f"unknown filter {written!r}")
    width = read_width(argument)
    if name == "pad":
        return text.ljust(width)
    if name == "zero":
        return text.rjust(width, "0")
    return text if len(text) <= width else text[: width - 1] + "~"


# --- test ---
def check(candidate):
    def rejects(template):
        try:
            candidate(template, {"a": "x"})
        except ValueError:
            return True
        return False

    values = {"name": "rye", "lot": "72", "city": "Ulm an der Donau", "none": ""}
    assert candidate("", values) == ""
    assert candidate("plain | text: 5", values) == "plain | text: 5"
    assert candidate("{name}", values) == "rye"
    assert candidate("<{ name }-{lot}>", values) == "<rye-72>"
    assert candidate("{{{name|upper|pad:6}}} no. {lot|zero:4}", values) == "{RYE   } no. 0072"
    assert candidate("{{}}{{name}}", values) == "{}{name}"
    assert candidate("[{name|pad:3}{name|pad:4}{name|pad:1}]", values) == "[ryerye rye]"
    assert candidate("{lot|zero:2}{lot|zero:3}{lot|zero:1}", values) == "7207272"
    assert candidate("{city|cut:5}", values) == "Ulm ~"
    assert candidate("{city|cut:16}{name|cut:2}{name|cut:1}", values) == "Ulm an der Donaur~~"
    assert candidate("{gone}{none}", values) == ""
    assert candidate("{gone|or:n/a}{none|or:-}{name|or:-}{none|or:}", values) == "n/a-rye"
    assert candidate("{gone | or:a:b | upper}", values) == "A:B"
    assert candidate("{name|upper|or:x|zero:5|cut:4}", values) == "00R~"
    assert rejects("{a")
    assert rejects("a{ab")
    assert rejects("a}")
    assert rejects("{a{b}}")
    assert rejects("{}")
    assert rejects("{|upper}")
    assert rejects("{a|lower}")
    assert rejects("{a|}")
    assert rejects("{a|upper:}")
    assert rejects("{a|or}")
    assert rejects("{a|pad}")
    assert rejects("{a|pad:0}")
    assert rejects("{a|cut:-1}")
    assert rejects("{a|zero:x}")
    assert rejects("{a|zero:\u0663}")
    assert candidate("{name}, " * 400, values) == "rye, " * 400
