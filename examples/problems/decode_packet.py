"""assay/13: Named fields in a binary packet (bytes, variable-length numbers, recursion)."""

# --- prompt ---


def decode_packet(data: bytes) -> dict[str, object]:
    """Decode a packet of named fields.

    The last byte of a packet is a checksum: start at 0 and, for each byte before it, multiply
    by 3, add the byte and keep the remainder modulo 256. The bytes before it are fields, one
    after the other. A field has

        one byte with the length of its name, which is at least 1
        the name, in ASCII
        one byte with its kind: "n", "t" or "g"
        its content

    A size is a whole number of at least 0 in groups of seven bits, the lowest group first, one
    byte a group; a byte with its highest bit set is followed by another. The content of "n" is
    a number n >= 0 given as the size 2n, or n < 0 given as the size -2n - 1. That of "t" is a
    size and that many bytes of UTF-8 text. That of "g" is a size and that many bytes of fields,
    which make a dictionary of their own.

    Return the names and the contents as int, str and dict. Raise ValueError if the checksum is
    wrong or missing, if a field is cut short or malformed, or if a name occurs twice in a
    group.

    >>> decode_packet(b"\\x01an\\x0c\\x02okt\\x02hi\\x37")
    {'a': 6, 'ok': 'hi'}
    """
    # --- solution ---
    if not data or checksum(data[:-1]) != data[-1]:
        raise ValueError("the checksum is wrong or missing")
    return read_fields(data[:-1])


def checksum(data: bytes) -> int:
    """Return the checksum of some bytes."""
    total = 0
    for byte in data:
        total = (total * 3 + byte) % 256
    return total


def take(data: bytes, position: int, count: int) -> tuple[bytes, int]:
    """Return the next bytes and the position after them."""
    end = position + count
    if end > len(data):
        raise ValueError("a field is cut short")
    return data[position:end], end


def read_size(data: bytes, position: int) -> tuple[int, int]:
    """Return the size at a position and the position after it."""
    size = shift = 0
    while True:
        (byte,), position = take(data, position, 1)
        size += (byte % 128) << shift
        shift += 7
        if byte < 128:
            return size, position


def read_fields(data: bytes) -> dict[str, object]:
    """Return the names and the contents of the fields that fill some bytes."""
    fields: dict[str, object] = {}
    position = 0
    while position < len(data):
        encoded, position = take(data, position + 1, data[position])
        name = encoded.decode("ascii")
        kind, position = take(data, position, 1)
        if not name or name in fields or kind not in (b"n", b"t", b"g"):
            raise ValueError(f"a field is malformed: {name!r}")
        size, position = read_size(data, position)
        if kind == b"n":
            fields[name] = -(size // 2) - 1 if size % 2 else size // 2
            continue
        content, position = take(data, position, size)
        fields[name] = content.decode("utf-8") if kind == b"t" else read_fields(content)
    return fields


# --- test ---
def check(candidate):
    def size(value):
        return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + size(value // 128)

    def seal(body):
        total = 0
        for byte in body:
            total = (3 * total + byte) % 256
        return body + bytes([total])

    def field(name, kind, content):
        return bytes([len(name)]) + name + kind + content

    def text(name, content):
        return field(name, b"t", size(len(content)) + content)

    def group(name, content):
        return field(name, b"g", size(len(content)) + content)

    def rejects(data):
        try:
            candidate(data)
        except ValueError:
            return True
        return False

    assert candidate(b"\x00") == {}
    assert candidate(b"\x01an\x0c\x02okt\x02hi\x37") == {"a": 6, "ok": "hi"}
    for encoded, number in (
        (0, 0),
        (1, -1),
        (2, 1),
        (3, -2),
        (126, 63),
        (127, -64),
        (128, 64),
        (254, 127),
        (255, -128),
        (40000, 20000),
    ):
        assert candidate(seal(field(b"x", b"n", size(encoded)))) == {"x": number}
    assert candidate(seal(field(b"big", b"n", size(2**40 + 1)))) == {"big": -(2**39) - 1}
    assert candidate(seal(text(b"t", b""))) == {"t": ""}
    assert candidate(seal(text(b"t", "h\u00e9".encode()))) == {"t": "h\u00e9"}
    assert candidate(seal(text(b"t", b"x" * 300) + field(b"n", b"n", b"\x04"))) == {"t": "x" * 300, "n": 2}
    assert candidate(seal(group(b"g", b""))) == {"g": {}}
    inner = field(b"x", b"n", b"\x03") + text(b"y", b"z")
    assert candidate(seal(group(b"g", group(b"g", inner)) + text(b"x", b"w"))) == {
        "g": {"g": {"x": -2, "y": "z"}},
        "x": "w",
    }
    assert rejects(b"")
    assert rejects(b"\x01")
    assert rejects(b"\x01an\x0c\x02okt\x02hi\x38")
    assert rejects(b"\x01na\x0c\x02okt\x02hi\x37")
    assert rejects(seal(b"\x02a"))
    assert rejects(seal(b"\x01a"))
    assert rejects(seal(b"\x01an"))
    assert rejects(seal(b"\x01an\x80"))
    assert rejects(seal(b"\x01at\x03hi"))
    assert rejects(seal(b"\x01ag\x05\x01xn\x02"))
    assert rejects(seal(b"\x01az\x02"))
    assert rejects(seal(b"\x00n\x02"))
    assert rejects(seal(field(b"\xe9", b"n", b"\x02")))
    assert rejects(seal(text(b"t", b"\xff")))
    assert rejects(seal(text(b"t", b"a") + text(b"t", b"a")))
    many = b"".join(field(b"k%03d" % index, b"n", size(2 * index)) for index in range(400))
    assert candidate(seal(many)) == {f"k{index:03d}": index for index in range(400)}
