package sandbox.calls;

import java.lang.reflect.Array;
import java.lang.reflect.GenericArrayType;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.lang.reflect.WildcardType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.*;

/** An argument that cannot become what a parameter wants. */
final class Mismatch extends Exception {
    private static final long serialVersionUID = 1;

    Mismatch(String message) {
        super(message, null, false, false);
    }
}

/** Makes arguments of Python values, by the types of the parameters (the table stands at the head of Calls). */
final class Values {
    // The numeric types in the order in which an int or float tries them.
    private static final List<Class<?>> NUMBERS = List.of(
            int.class, Integer.class, long.class, Long.class, BigInteger.class, short.class, Short.class,
            byte.class, Byte.class, double.class, Double.class, float.class, Float.class, BigDecimal.class);

    private Values() {}

    /** The lower, the sooner a method is tried. */
    static int rank(Method method) {
        int sum = method.isVarArgs() ? 1 << 20 : 0;
        for (Type type : method.getGenericParameterTypes()) {
            sum += rank(type);
        }
        return sum;
    }

    private static int rank(Type type) {
        if (type instanceof GenericArrayType array) {
            return rank(array.getGenericComponentType());
        }
        if (type instanceof ParameterizedType generic) {
            int sum = 0;
            for (Type one : generic.getActualTypeArguments()) {
                sum += rank(one);
            }
            return sum;
        }
        Class<?> raw = raw(type);
        if (raw.isArray()) {
            return rank(raw.getComponentType());
        }
        int place = NUMBERS.indexOf(raw);
        if (place >= 0) {
            return place;
        }
        return raw == Object.class || raw == Comparable.class || raw == Number.class ? 1000 : 0;
    }

    static Object[] arguments(Method method, Node[] given) throws Mismatch {
        Type[] wanted = method.getGenericParameterTypes();
        if (!method.isVarArgs()) {
            if (given.length != wanted.length) {
                throw new Mismatch(given.length + " given, where the method has " + wanted.length + " parameters");
            }
            return converted(given, wanted, given.length);
        }
        int fixed = wanted.length - 1;
        if (given.length < fixed) {
            throw new Mismatch(given.length + " given, where the method has at least " + fixed + " parameters");
        }
        Object[] head = converted(given, wanted, fixed);
        Object[] all = Arrays.copyOf(head, wanted.length);
        Type each = component(wanted[fixed]);
        try {
            Object rest = Array.newInstance(raw(each), given.length - fixed);
            for (int i = fixed; i < given.length; i++) {
                Array.set(rest, i - fixed, convert(given[i], each, i));
            }
            all[fixed] = rest;
        } catch (Mismatch error) {
            if (given.length != wanted.length) {
                throw error;
            }
            all[fixed] = convert(given[fixed], wanted[fixed], fixed);
        }
        return all;
    }

    private static Object[] converted(Node[] given, Type[] wanted, int count) throws Mismatch {
        Object[] made = new Object[count];
        for (int i = 0; i < count; i++) {
            made[i] = convert(given[i], wanted[i], i);
        }
        return made;
    }

    private static Object convert(Node node, Type type, int position) throws Mismatch {
        try {
            return convert(node, type);
        } catch (Mismatch error) {
            throw new Mismatch("argument " + (position + 1) + ": " + error.getMessage());
        }
    }

    private static Type component(Type array) {
        return array instanceof GenericArrayType generic
                ? generic.getGenericComponentType()
                : ((Class<?>) array).getComponentType();
    }

    private static Class<?> raw(Type type) {
        if (type instanceof Class<?> one) {
            return one;
        }
        if (type instanceof ParameterizedType generic) {
            return (Class<?>) generic.getRawType();
        }
        if (type instanceof GenericArrayType array) {
            return Array.newInstance(raw(array.getGenericComponentType()), 0).getClass();
        }
        if (type instanceof TypeVariable<?> variable) {
            return raw(variable.getBounds()[0]);
        }
        return raw(((WildcardType) type).getUpperBounds()[0]);
    }

    /** The type argument at `index`, Object where the type is raw. */
    private static Type argument(Type type, int index) {
        if (type instanceof TypeVariable<?> variable) {
            return argument(variable.getBounds()[0], index);
        }
        if (type instanceof WildcardType wildcard) {
            return argument(wildcard.getUpperBounds()[0], index);
        }
        return type instanceof ParameterizedType generic ? generic.getActualTypeArguments()[index] : Object.class;
    }

    private static Mismatch mismatch(Node node, Type type) {
        return new Mismatch(node.type() + " is no " + type.getTypeName());
    }

    private static Object convert(Node node, Type type) throws Mismatch {
        Class<?> raw = raw(type);
        Object made = null;
        if (raw == Optional.class) {
            return node.tag == 'N' ? Optional.empty() : Optional.of(convert(node, argument(type, 0)));
        } else if (raw == OptionalInt.class) {
            return node.tag == 'N' ? OptionalInt.empty() : OptionalInt.of((Integer) convert(node, int.class));
        } else if (raw == OptionalLong.class) {
            return node.tag == 'N' ? OptionalLong.empty() : OptionalLong.of((Long) convert(node, long.class));
        } else if (raw == OptionalDouble.class) {
            return node.tag == 'N' ? OptionalDouble.empty() : OptionalDouble.of((Double) convert(node, double.class));
        } else if (node.tag == 'N') {
            if (raw.isPrimitive()) {
                throw mismatch(node, type);
            }
            return null;
        } else if (raw.isArray()) {
            made = array(node, raw, component(type instanceof Class || type instanceof GenericArrayType ? type : raw));
        } else if (Iterable.class.isAssignableFrom(raw)) {
            made = collection(node, raw, argument(type, 0));
        } else if (Map.class.isAssignableFrom(raw)) {
            made = map(node, raw, argument(type, 0), argument(type, 1));
        } else if (raw == Map.Entry.class) {
            if (node.isSequence() && node.items.length == 2) {
                Object key = convert(node.items[0], argument(type, 0));
                made = new AbstractMap.SimpleEntry<>(key, convert(node.items[1], argument(type, 1)));
            }
        } else {
            made = single(node, raw);
        }
        if (made == null) {
            throw mismatch(node, type);
        }
        return made;
    }

    private static Object single(Node node, Class<?> raw) throws Mismatch {
        if (raw == boolean.class || raw == Boolean.class) {
            return node.tag == 'T' ? Boolean.TRUE : node.tag == 'F' ? Boolean.FALSE : null;
        }
        if (raw == char.class || raw == Character.class) {
            String text = node.tag == 's' ? node.text() : "";
            return text.length() == 1 ? text.charAt(0) : null;
        }
        if (raw == String.class || raw == CharSequence.class) {
            return node.tag == 's' ? node.text() : null;
        }
        if (NUMBERS.contains(raw)) {
            return number(node, raw);
        }
        if (raw == Object.class || raw == Number.class || raw == Comparable.class) {
            Object made = natural(node);
            return raw.isInstance(made) ? made : null;
        }
        return null;
    }

    private static Object number(Node node, Class<?> raw) throws Mismatch {
        boolean integer = node.tag == 'i';
        if (raw == double.class || raw == Double.class || raw == float.class || raw == Float.class) {
            if (!integer && node.tag != 'd') {
                return null;
            }
            boolean narrow = raw == float.class || raw == Float.class;
            double value = integer ? node.integer().doubleValue() : node.number;
            if (narrow) {
                value = integer ? node.integer().floatValue() : (float) value;
            }
            if (Double.isInfinite(value) && (integer || !Double.isInfinite(node.number))) {
                throw new Mismatch("a number beyond the range of " + raw.getSimpleName());
            }
            if (narrow) {
                return (float) value;
            }
            return value;
        }
        if (raw == BigDecimal.class) {
            return integer ? new BigDecimal(node.integer()) : node.tag == 'D' ? decimal(node) : null;
        }
        if (!integer) {
            return null;
        }
        if (raw == BigInteger.class) {
            return node.integer();
        }
        long value = node.small;
        boolean fits = node.large == null;
        Object made;
        if (raw == int.class || raw == Integer.class) {
            fits &= value == (int) value;
            made = (int) value;
        } else if (raw == short.class || raw == Short.class) {
            fits &= value == (short) value;
            made = (short) value;
        } else if (raw == byte.class || raw == Byte.class) {
            fits &= value == (byte) value;
            made = (byte) value;
        } else {
            made = value;
        }
        if (!fits) {
            throw new Mismatch("an int beyond the range of " + raw.getSimpleName());
        }
        return made;
    }

    private static BigDecimal decimal(Node node) throws Mismatch {
        try {
            return new BigDecimal(node.text());
        } catch (NumberFormatException error) {
            throw new Mismatch("Decimal('" + node.text() + "') is no BigDecimal");
        }
    }

    private static Object array(Node node, Class<?> raw, Type each) throws Mismatch {
        if (raw == byte[].class) {
            return node.isBytes() ? node.body.clone() : null;
        }
        if (raw == char[].class && node.tag == 's') {
            return node.text().toCharArray();
        }
        if (!node.isSequence()) {
            return null;
        }
        int count = node.items.length;
        Object made = Array.newInstance(raw.getComponentType(), count);
        for (int i = 0; i < count; i++) {
            Array.set(made, i, convert(node.items[i], each));
        }
        return made;
    }

    /** An empty collection that a parameter of class `raw` takes, null where there is none. */
    private static Collection<Object> empty(Class<?> raw) {
        if (raw.isAssignableFrom(ArrayList.class)) { // List, Collection, Iterable
            return new ArrayList<>();
        } else if (raw == LinkedHashSet.class || raw == Set.class || raw == AbstractSet.class) {
            return new LinkedHashSet<>();
        } else if (raw == HashSet.class) {
            return new HashSet<>();
        } else if (raw == TreeSet.class || raw == SortedSet.class || raw == NavigableSet.class) {
            return new TreeSet<>();
        } else if (raw == ArrayDeque.class || raw == Deque.class || raw == Queue.class) {
            return new ArrayDeque<>();
        } else if (raw == LinkedList.class) {
            return new LinkedList<>();
        } else if (raw == PriorityQueue.class) {
            return new PriorityQueue<>();
        } else if (raw == Vector.class) {
            return new Vector<>();
        }
        return raw == Stack.class ? new Stack<>() : null;
    }

    private static Map<Object, Object> emptyMap(Class<?> raw) {
        if (raw == LinkedHashMap.class || raw == Map.class || raw == AbstractMap.class) {
            return new LinkedHashMap<>();
        } else if (raw == HashMap.class) {
            return new HashMap<>();
        }
        return raw == TreeMap.class || raw == SortedMap.class || raw == NavigableMap.class ? new TreeMap<>() : null;
    }

    private static Object collection(Node node, Class<?> raw, Type each) throws Mismatch {
        Collection<Object> made = empty(raw);
        boolean set = made instanceof Set;
        if (made == null || (set ? !node.isSet() : !node.isSequence())) {
            return null;
        }
        for (Node item : node.items) {
            Object value = convert(item, each);
            if (set) {
                checkKey(value);
            }
            try {
                if (!made.add(value)) {
                    throw new Mismatch("elements that are one element of " + raw.getSimpleName());
                }
            } catch (ClassCastException | NullPointerException error) {
                throw new Mismatch("elements that " + raw.getSimpleName() + " does not take");
            }
        }
        return made;
    }

    private static Object map(Node node, Class<?> raw, Type keys, Type values) throws Mismatch {
        Map<Object, Object> made = emptyMap(raw);
        if (made == null || !node.isMap()) {
            return null;
        }
        for (int i = 0; i < node.items.length; i += 2) {
            Object key = convert(node.items[i], keys);
            checkKey(key);
            Object value = convert(node.items[i + 1], values);
            try {
                if (made.containsKey(key)) {
                    throw new Mismatch("keys that are one key of " + raw.getSimpleName());
                }
                made.put(key, value);
            } catch (ClassCastException | NullPointerException error) {
                throw new Mismatch("keys that " + raw.getSimpleName() + " does not take");
            }
        }
        return made;
    }

    private static void checkKey(Object key) throws Mismatch {
        if (key != null && key.getClass().isArray()) {
            throw new Mismatch("an array is no key by its value in Java");
        }
    }

    private static Object natural(Node node) throws Mismatch {
        switch (node.tag) {
            case 'T', 'F':
                return node.tag == 'T';
            case 'i':
                if (node.large != null) {
                    return node.large;
                }
                return node.small == (int) node.small ? (Object) (int) node.small : (Object) node.small;
            case 'd':
                return node.number;
            case 'D':
                return decimal(node);
            case 's':
                return node.text();
            case 'b', 'a':
                return node.body.clone();
            default:
        }
        if (node.isSequence()) {
            return collection(node, ArrayList.class, Object.class);
        }
        if (node.isSet()) {
            return collection(node, LinkedHashSet.class, Object.class);
        }
        return node.isMap() ? map(node, LinkedHashMap.class, Object.class, Object.class) : null;
    }
}
