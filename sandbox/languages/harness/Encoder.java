package sandbox.calls;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;

/** A value that has no encoding, or is past a bound. */
final class Refusal extends RuntimeException {
    private static final long serialVersionUID = 1;

    Refusal(String message) {
        super(message, null, false, false);
    }
}

/** Writes values as sandbox/codec.py does (the table stands at the head of Calls). No code of theirs runs. */
final class Encoder {
    private static final int MAX_DEPTH = 100;
    private static final int MAX_NODES = 1_000_000;
    // What a set or dict weighs in values beside itself.
    private static final int WEIGHT = 4;

    private static final Set<String> LISTS = named(
            "ArrayList", "LinkedList", "Vector", "Stack", "ArrayDeque", "Arrays$ArrayList", "ArrayList$SubList",
            "ImmutableCollections$ListN", "ImmutableCollections$List12", "ImmutableCollections$SubList",
            "Collections$EmptyList", "Collections$SingletonList", "Collections$CopiesList", "HashMap$Values",
            "LinkedHashMap$LinkedValues", "TreeMap$Values");
    private static final Set<String> SETS = named(
            "HashSet", "LinkedHashSet", "TreeSet", "ImmutableCollections$SetN", "ImmutableCollections$Set12",
            "Collections$EmptySet", "Collections$SingletonSet", "HashMap$KeySet", "LinkedHashMap$LinkedKeySet",
            "TreeMap$KeySet");
    private static final Set<String> MAPS = named(
            "HashMap", "LinkedHashMap", "TreeMap", "Hashtable", "concurrent.ConcurrentHashMap",
            "ImmutableCollections$MapN", "ImmutableCollections$Map1", "Collections$EmptyMap",
            "Collections$SingletonMap");
    private static final Set<String> ENTRIES = named(
            "AbstractMap$SimpleEntry", "AbstractMap$SimpleImmutableEntry", "KeyValueHolder", "HashMap$Node",
            "LinkedHashMap$Entry", "TreeMap$Entry");

    // Lambda expressions would double the time that this program takes to start.
    private static final Comparator<byte[]> BY_BYTES = new Comparator<>() {
        @Override
        public int compare(byte[] one, byte[] other) {
            return Arrays.compareUnsigned(one, other);
        }
    };

    // Kinds of numbers that the keys of the current map hold: 1, 1.0 and True are one key in Python.
    private static final int BOOL = 1;
    private static final int INT = 2;
    private static final int FLOAT = 4;

    private final int maxBytes;
    private byte[] out = new byte[64];
    private int size;
    private int nodes;
    private int numbers;

    Encoder(int maxBytes) {
        this.maxBytes = maxBytes;
    }

    private static Set<String> named(String... names) {
        Set<String> full = new HashSet<>();
        for (String name : names) {
            full.add("java.util." + name);
        }
        return full;
    }

    byte[] bytes() {
        return Arrays.copyOf(out, size);
    }

    void raw(char one) {
        room(1);
        out[size++] = (byte) one;
    }

    /** Appends a list of texts. */
    Encoder texts(String... texts) {
        head('l', texts.length);
        for (String text : texts) {
            text(text);
        }
        return this;
    }

    void put(Object value) {
        put(value, 0, false);
    }

    /** A key must be something that Python can hash. */
    private void put(Object value, int depth, boolean key) {
        count(1);
        if (value == null) {
            raw('N');
            return;
        }
        Class<?> type = value.getClass();
        if (type == Integer.class || type == Long.class || type == Short.class || type == Byte.class) {
            numbers |= INT;
            small(((Number) value).longValue());
        } else if (type == String.class) {
            text((String) value);
        } else if (type == Boolean.class) {
            numbers |= BOOL;
            raw((Boolean) value ? 'T' : 'F');
        } else if (type == Double.class || type == Float.class) {
            numbers |= FLOAT;
            double number = ((Number) value).doubleValue();
            // As keys both zeros are one in Python, not in Java.
            number(key && number == 0 ? 0 : number);
        } else if (type == Character.class) {
            text(value.toString());
        } else if (type == BigInteger.class) {
            numbers |= INT;
            large((BigInteger) value);
        } else if (type == BigDecimal.class && !key) {
            decimal((BigDecimal) value);
        } else if (type == byte[].class) {
            blob('b', (byte[]) value);
        } else if (type.isArray()) {
            array(value, depth, key);
        } else {
            other(value, type, depth, key);
        }
    }

    private void other(Object value, Class<?> type, int depth, boolean key) {
        if (type.getClassLoader() != null) {
            throw refusal(type);
        }
        String name = type.getName();
        if (LISTS.contains(name)) {
            items(key ? 't' : 'l', all((Collection<?>) value), depth, key);
        } else if (SETS.contains(name)) {
            set(all((Collection<?>) value), depth, key);
        } else if (MAPS.contains(name) && !key) {
            map((Map<?, ?>) value, depth);
        } else if (ENTRIES.contains(name)) {
            Map.Entry<?, ?> entry = (Map.Entry<?, ?>) value;
            items('t', Arrays.asList(entry.getKey(), entry.getValue()), depth, key);
        } else if (name.startsWith("java.util.Collections$Unmodifiable")
                || name.startsWith("java.util.Collections$Synchronized")) {
            deeper(depth);
            nodes--;
            put(within(value, type), depth + 1, key);
        } else {
            nodes--;
            put(optional(value, type), depth, key);
        }
    }

    private static Refusal refusal(Class<?> type) {
        return new Refusal("a value of type " + type.getTypeName() + ", which has no encoding");
    }

    private static Object optional(Object value, Class<?> type) {
        if (type == Optional.class) {
            return ((Optional<?>) value).orElse(null);
        } else if (type == OptionalInt.class) {
            OptionalInt number = (OptionalInt) value;
            return number.isPresent() ? (Object) number.getAsInt() : null;
        } else if (type == OptionalLong.class) {
            OptionalLong number = (OptionalLong) value;
            return number.isPresent() ? (Object) number.getAsLong() : null;
        } else if (type == OptionalDouble.class) {
            OptionalDouble number = (OptionalDouble) value;
            return number.isPresent() ? (Object) number.getAsDouble() : null;
        }
        throw refusal(type);
    }

    /** What a view of the JDK looks at: calling the view would call a class of anyone's own. */
    private static Object within(Object view, Class<?> type) {
        for (Class<?> one = type; one != null; one = one.getSuperclass()) {
            for (String name : new String[] {"c", "m"}) {
                try {
                    Field field = one.getDeclaredField(name);
                    field.setAccessible(true);
                    return field.get(view);
                } catch (NoSuchFieldException error) {
                    continue;
                } catch (IllegalAccessException error) {
                    throw refusal(type);
                }
            }
        }
        throw refusal(type);
    }

    /** The elements by iteration: the size of some views is asked of a class of anyone's own. */
    private List<Object> all(Collection<?> collection) {
        List<Object> found = new ArrayList<>();
        for (Object one : collection) {
            found.add(one);
            if (nodes + found.size() > MAX_NODES) {
                throw tooMany();
            }
        }
        return found;
    }

    private static Refusal tooMany() {
        return new Refusal("more than " + MAX_NODES + " values");
    }

    private void count(int more) {
        nodes += more;
        if (nodes > MAX_NODES) {
            throw tooMany();
        }
    }

    private void deeper(int depth) {
        if (depth >= MAX_DEPTH) {
            throw new Refusal("nested deeper than " + MAX_DEPTH + ", or a cycle");
        }
    }

    private void room(int more) {
        if (more > maxBytes - size) {
            throw new Refusal("larger than " + maxBytes + " bytes");
        }
        if (more > out.length - size) {
            out = Arrays.copyOf(out, (int) Math.min(Math.max(2L * out.length, (long) size + more), maxBytes));
        }
    }

    private void length(int number) {
        for (; number > 127; number >>>= 7) {
            raw((char) (number & 127 | 128));
        }
        raw((char) number);
    }

    private void head(char tag, int count) {
        raw(tag);
        length(count);
    }

    private void blob(char tag, byte[] data) {
        head(tag, data.length);
        room(data.length);
        System.arraycopy(data, 0, out, size, data.length);
        size += data.length;
    }

    /** UTF-8, a lone surrogate as three bytes. */
    private void text(String text) {
        int bytes = 0;
        int end = text.length();
        for (int i = 0; i < end; i++) {
            char one = text.charAt(i);
            boolean pair = Character.isHighSurrogate(one) && i + 1 < end && Character.isLowSurrogate(text.charAt(i + 1));
            bytes += pair ? 4 : one < 0x80 ? 1 : one < 0x800 ? 2 : 3;
            i += pair ? 1 : 0;
        }
        head('s', bytes);
        room(bytes);
        for (int i = 0; i < end; ) {
            int point = text.codePointAt(i);
            i += Character.charCount(point);
            if (point < 0x80) {
                out[size++] = (byte) point;
                continue;
            }
            int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
            out[size++] = (byte) (0xff00 >> more + 1 | point >> 6 * more);
            while (more > 0) {
                more--;
                out[size++] = (byte) (0x80 | point >> 6 * more & 0x3f);
            }
        }
    }

    /** Python's int.to_bytes over bit_length() // 8 + 1 bytes. */
    private void small(long number) {
        if (number == Long.MIN_VALUE) {
            large(BigInteger.valueOf(number));
            return;
        }
        int bytes = (64 - Long.numberOfLeadingZeros(Math.abs(number))) / 8 + 1;
        head('i', bytes);
        room(bytes);
        for (int i = 0; i < bytes; i++) {
            out[size++] = (byte) (number >> 8 * i);
        }
    }

    private void large(BigInteger number) {
        int bytes = number.abs().bitLength() / 8 + 1;
        head('i', bytes);
        room(bytes);
        byte[] shortest = number.toByteArray();
        for (int i = 0; i < bytes; i++) {
            out[size++] = i < shortest.length ? shortest[shortest.length - 1 - i] : (byte) (number.signum() < 0 ? -1 : 0);
        }
    }

    private void number(double number) {
        raw('d');
        room(8);
        // Every NaN is one NaN here.
        long bits = Double.doubleToLongBits(number);
        for (int i = 7; i >= 0; i--) {
            out[size++] = (byte) (bits >> 8 * i);
        }
    }

    private void decimal(BigDecimal number) {
        // Text takes time in the square of its length.
        if (number.unscaledValue().bitLength() > 1 << 16) {
            throw new Refusal("a BigDecimal of more than " + (1 << 16) + " bits");
        }
        String text = number.toString();
        head('D', text.length());
        room(text.length());
        for (int i = 0; i < text.length(); i++) {
            out[size++] = (byte) text.charAt(i);
        }
    }

    private void array(Object array, int depth, boolean key) {
        int count = Array.getLength(array);
        begin(key ? 't' : 'l', count, depth);
        for (int i = 0; i < count; i++) {
            put(Array.get(array, i), depth + 1, key);
        }
    }

    private void items(char tag, List<?> items, int depth, boolean key) {
        begin(tag, items.size(), depth);
        for (Object item : items) {
            put(item, depth + 1, key);
        }
    }

    /** Bounds are told before the first item: a program that made millions has spent its time already. */
    private void begin(char tag, int count, int depth) {
        deeper(depth);
        if (count > MAX_NODES - nodes) {
            throw tooMany();
        }
        head(tag, count);
    }

    private void set(List<?> items, int depth, boolean key) {
        deeper(depth);
        count(WEIGHT);
        List<byte[]> parts = keys(items, depth);
        byte[][] sorted = parts.toArray(new byte[0][]);
        Arrays.sort(sorted, BY_BYTES);
        unlike(sorted);
        begin(key ? 'Z' : 'S', sorted.length, depth);
        for (byte[] part : sorted) {
            append(part);
        }
    }

    private void map(Map<?, ?> map, int depth) {
        deeper(depth);
        count(WEIGHT);
        List<Object> keys = new ArrayList<>();
        List<Object> values = new ArrayList<>();
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            keys.add(entry.getKey());
            values.add(entry.getValue());
            if (nodes + 2 * keys.size() > MAX_NODES) {
                throw tooMany();
            }
        }
        List<byte[]> parts = keys(keys, depth);
        byte[][] sorted = parts.toArray(new byte[0][]);
        Arrays.sort(sorted, BY_BYTES);
        unlike(sorted);
        head('m', parts.size());
        for (int i = 0; i < parts.size(); i++) {
            append(parts.get(i));
            put(values.get(i), depth + 1, false);
        }
    }

    /** Encodes keys one by one and refuses those that Python may take for each other. */
    private List<byte[]> keys(List<?> keys, int depth) {
        byte[] outer = out;
        int before = size;
        int seen = numbers;
        long total = size;
        List<byte[]> parts = new ArrayList<>(keys.size());
        numbers = 0;
        out = new byte[64];
        for (Object key : keys) {
            size = 0;
            put(key, depth + 1, true);
            parts.add(bytes());
            total += size;
            if (total > maxBytes) {
                throw new Refusal("larger than " + maxBytes + " bytes");
            }
        }
        if (Integer.bitCount(numbers) > 1) {
            throw new Refusal("keys that are numbers of several types");
        }
        out = outer;
        size = before;
        numbers |= seen;
        return parts;
    }

    private static void unlike(byte[][] sorted) {
        for (int i = 1; i < sorted.length; i++) {
            if (Arrays.equals(sorted[i - 1], sorted[i])) {
                throw new Refusal("keys that would be one key in Python");
            }
        }
    }

    private void append(byte[] part) {
        room(part.length);
        System.arraycopy(part, 0, out, size, part.length);
        size += part.length;
    }
}
