package sandbox.calls;

import java.math.BigInteger;

/** One value as sandbox/codec.py wrote it. The supervisor made it, so it is whole and within bounds. */
final class Node {
    private static final Node[] NONE = {};

    /** The codec's tag. */
    final char tag;
    /** Elements, or keys and values in turn. */
    final Node[] items;
    /** An int that fits; where it does not, `large` holds it. */
    long small;
    BigInteger large;
    double number;
    /** Text or bytes, still encoded. */
    byte[] body;

    private Node(char tag, Node[] items) {
        this.tag = tag;
        this.items = items;
    }

    static Node parse(byte[] data) {
        return new Reader(data).take();
    }

    boolean isSequence() {
        return tag == 'l' || tag == 't' || tag == 'q';
    }

    boolean isSet() {
        return tag == 'S' || tag == 'Z';
    }

    boolean isMap() {
        return tag == 'm' || tag == 'o' || tag == 'k' || tag == 'f';
    }

    boolean isBytes() {
        return tag == 'b' || tag == 'a';
    }

    BigInteger integer() {
        return large != null ? large : BigInteger.valueOf(small);
    }

    /** The name of its type in Python. */
    String type() {
        return switch (tag) {
            case 'N' -> "None";
            case 'T', 'F' -> "bool";
            case 'i' -> "int";
            case 'd' -> "float";
            case 'c' -> "complex";
            case 's' -> "str";
            case 'b' -> "bytes";
            case 'a' -> "bytearray";
            case 'l' -> "list";
            case 't' -> "tuple";
            case 'q' -> "deque";
            case 'S' -> "set";
            case 'Z' -> "frozenset";
            case 'm', 'o', 'k', 'f' -> "dict";
            case 'r' -> "range";
            case 'D' -> "Decimal";
            case 'Q' -> "Fraction";
            default -> "datetime";
        };
    }

    /** A str: UTF-8 with surrogates let through. */
    String text() {
        StringBuilder text = new StringBuilder(body.length);
        for (int i = 0; i < body.length; ) {
            int first = body[i] & 0xff;
            int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
            int point = more == 0 ? first : first & (0x3f >> more);
            for (i++; more > 0; more--, i++) {
                point = point << 6 | body[i] & 0x3f;
            }
            text.appendCodePoint(point);
        }
        return text.toString();
    }

    private static final class Reader {
        private final byte[] data;
        private int at;

        Reader(byte[] data) {
            this.data = data;
        }

        Node take() {
            char tag = (char) data[at++];
            switch (tag) {
                case 'l', 't', 'q', 'S', 'Z':
                    return items(tag, length());
                case 'm', 'o', 'k', 'f':
                    return items(tag, 2 * length());
                case 'r', 'e':
                    return items(tag, 3);
                case 'Q':
                    return items(tag, 2);
                default:
            }
            Node node = new Node(tag, NONE);
            switch (tag) {
                case 'N', 'T', 'F':
                    break;
                case 'd':
                    node.number = number();
                    break;
                case 'c':
                    number();
                    number();
                    break;
                case 'i':
                    integer(node);
                    break;
                default:
                    node.body = blob();
            }
            return node;
        }

        private Node items(char tag, int count) {
            Node[] items = new Node[count];
            for (int i = 0; i < count; i++) {
                items[i] = take();
            }
            return new Node(tag, items);
        }

        private int length() {
            int number = 0;
            for (int shift = 0; ; shift += 7) {
                byte one = data[at++];
                number |= (one & 127) << shift;
                if (one >= 0) {
                    return number;
                }
            }
        }

        private byte[] blob() {
            byte[] body = new byte[length()];
            System.arraycopy(data, at, body, 0, body.length);
            at += body.length;
            return body;
        }

        private double number() {
            long bits = 0;
            for (int i = 0; i < 8; i++) {
                bits = bits << 8 | data[at++] & 0xff;
            }
            return Double.longBitsToDouble(bits);
        }

        private void integer(Node node) {
            byte[] body = blob();
            if (body.length <= 8) {
                long value = body.length == 0 ? 0 : body[body.length - 1];
                for (int i = body.length - 2; i >= 0; i--) {
                    value = value << 8 | body[i] & 0xff;
                }
                node.small = value;
                return;
            }
            for (int i = 0, j = body.length - 1; i < j; i++, j--) {
                byte one = body[i];
                body[i] = body[j];
                body[j] = one;
            }
            BigInteger value = new BigInteger(body);
            if (value.bitLength() < 64) {
                node.small = value.longValue();
            } else {
                node.large = value;
            }
        }
    }
}
