package sandbox.calls;

import java.io.File;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Answers a job of kind "calls" for a method of a Java class; sandbox/languages/base.py has the contract.
 *
 * <p>The method is one of class Solution, in any package, or of a class that it extends: static or not, of any
 * visibility. For an instance method each call has a new Solution, made by the constructor without parameters.
 * Of several methods the first that takes the arguments is called; those with int stand before those with
 * long, BigInteger, short, byte, double, float, BigDecimal, and Object comes last (see Values.rank). A void
 * method returns None: what it does to its arguments is not seen. Keyword arguments are an ArgumentError.
 *
 * <p>A Python value becomes an argument by the generic type of the parameter, or the call is an ArgumentError:
 * <pre>
 * byte, short, int, long and boxes   int within the type's range
 * BigInteger                         int
 * double, float and boxes            float, int (rounded to the type; an overflow is an error)
 * BigDecimal                         Decimal (finite), int
 * boolean, Boolean                   bool
 * char, Character                    str of one UTF-16 unit
 * String, CharSequence               str
 * byte[]                             bytes, bytearray
 * char[]                             str, or a list of str of one unit each
 * other arrays; List, Collection,    list, tuple, deque
 *   Iterable, Queue, Deque and the
 *   JDK's classes for them
 * Set and the JDK's classes          set, frozenset
 * Map and the JDK's classes          dict and its kin
 * Map.Entry                          list or tuple of two
 * Optional, OptionalInt, ...         None for empty, else what its type takes
 * T..., as the last parameter        the rest of the arguments, or one list of them
 * Object, Number, Comparable, a      the natural one: Boolean, Integer (else Long, else BigInteger), Double,
 *   type variable                    BigDecimal, String, byte[], ArrayList, LinkedHashSet, LinkedHashMap
 * any type but a primitive           None for null
 * other classes                      nothing
 * </pre>
 *
 * <p>A result becomes a Python value by its class:
 * <pre>
 * null                               None
 * Boolean                            bool
 * Byte, Short, Integer, Long,        int
 *   BigInteger
 * Float, Double                      float (a Float exactly as the double it equals)
 * BigDecimal                         Decimal
 * Character, String                  str (a lone surrogate stays one)
 * byte[]                             bytes
 * other arrays, the JDK's lists,     list (a tuple within a key)
 *   deques and values() of maps
 * the JDK's sets, keySet() of maps   set (a frozenset within a key)
 * the JDK's maps                     dict, in their order
 * the JDK's Map.Entry                tuple of two
 * Optional, OptionalInt, ...         None, or what is in it
 * other classes, own subclasses of   no encoding: their code could answer as it likes
 *   the JDK's too, records, enums
 * </pre>
 * Unmodifiable and synchronized views of the JDK are looked through.
 *
 * <p>What a call throws is its error, under the class's full name. OutOfMemoryError is marked as the limit's.
 */
public final class Calls {
    private static final String CALLS = "/tmp/calls.bin";
    private static final int RESULTS = 3;
    private static final int EXIT_LOST = 71;
    private static final int MAX_MESSAGE = 1000;

    // Lambda expressions would double the time that this program takes to start.
    private static final Comparator<Method> BY_RANK = new Comparator<>() {
        @Override
        public int compare(Method one, Method other) {
            int order = Integer.compare(Values.rank(one), Values.rank(other));
            return order != 0 ? order : one.toString().compareTo(other.toString());
        }
    };

    private final FileOutputStream channel;
    private final byte[] nonce;
    private final List<byte[]> blobs = new ArrayList<>();
    private final int maxBytes;

    private Calls(int maxBytes) throws ReflectiveOperationException, IOException {
        this.maxBytes = maxBytes;
        // A pipe of the supervisor cannot be opened by a path under this uid.
        Constructor<FileDescriptor> made = FileDescriptor.class.getDeclaredConstructor(int.class);
        made.setAccessible(true);
        channel = new FileOutputStream(made.newInstance(RESULTS));
        File file = new File(CALLS);
        ByteBuffer data = ByteBuffer.wrap(read(file)).order(ByteOrder.LITTLE_ENDIAN);
        if (!file.delete()) {
            throw new IOException(CALLS + " cannot be removed");
        }
        nonce = new byte[8];
        data.get(nonce);
        for (int count = data.getInt(); count > 0; count--) {
            byte[] blob = new byte[data.getInt()];
            data.get(blob);
            blobs.add(blob);
        }
    }

    /** Arguments: the method's name, the folder of class files, and the bytes that a value may take. */
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            rehearse(null, null, null);
            return;
        }
        int status = EXIT_LOST;
        try {
            status = new Calls(Integer.parseInt(arguments[2])).run(arguments[0], new File(arguments[1]));
        } catch (Throwable error) {
            error.printStackTrace();
        }
        // Shutdown hooks are the program's; so are the threads that still run.
        Runtime.getRuntime().halt(status);
    }

    private int run(String name, File folder) throws IOException {
        Class<?> solution;
        List<Method> methods;
        Constructor<?> constructor = null;
        try {
            Loader loader = new Loader(folder);
            Thread.currentThread().setContextClassLoader(loader);
            String found = find(folder);
            if (found == null) {
                return missing("there is no class Solution");
            }
            solution = Class.forName(found, true, loader);
            methods = methods(solution, name);
            if (methods.isEmpty()) {
                return missing("class Solution has no method '" + name + "'");
            }
            constructor = constructor(solution);
            for (int i = methods.size() - 1; i >= 0 && constructor == null; i--) {
                if (!Modifier.isStatic(methods.get(i).getModifiers())) {
                    methods.remove(i);
                }
            }
            if (methods.isEmpty()) {
                return missing("'" + name + "' is not static, and no Solution can be made without arguments");
            }
        } catch (Throwable error) {
            Throwable cause = error instanceof ExceptionInInitializerError ? error.getCause() : error;
            send('X', described("load", cause));
            flush();
            return 1;
        }
        send('R', new byte[0]);
        for (byte[] blob : blobs) {
            send('O', outcome(constructor, methods, blob));
        }
        flush();
        send('D', new byte[] {'i', 1, 0});
        return 0;
    }

    /** Loads what a run needs, so that the JVM can archive it; it calls nothing but itself. */
    private static void rehearse(Integer number, List<String> texts, Map<String, Double> numbers) throws Exception {
        new Loader(new File("."));
        Object sample = new AbstractMap.SimpleEntry<>(List.of(7, List.of("text"), Map.of("key", 0.5)), Map.of());
        Encoder encoder = new Encoder(1 << 10);
        encoder.put(sample);
        Method method = methods(Calls.class, "rehearse").get(0);
        Object[] arguments = Values.arguments(method, Node.parse(encoder.bytes()).items[0].items);
        new Encoder(1 << 10).put(arguments);
        new Encoder(1 << 10).texts(message(new InvocationTargetException(null)));
    }

    private int missing(String message) throws IOException {
        send('X', new Encoder(maxBytes).texts("missing", "AttributeError", message, "").bytes());
        return 1;
    }

    /** The full name of class Solution: of the one without a package, else of the only one. */
    private static String find(File folder) {
        if (new File(folder, "Solution.class").exists()) {
            return "Solution";
        }
        List<String> found = new ArrayList<>();
        search(folder, "", found);
        return found.size() == 1 ? found.get(0) : null;
    }

    private static void search(File folder, String prefix, List<String> found) {
        File[] all = folder.listFiles();
        for (File one : all == null ? new File[0] : all) {
            if (one.isDirectory()) {
                search(one, prefix + one.getName() + ".", found);
            } else if (one.getName().equals("Solution.class")) {
                found.add(prefix + "Solution");
            }
        }
    }

    private static byte[] read(File file) throws IOException {
        try (FileInputStream stream = new FileInputStream(file)) {
            return stream.readAllBytes();
        }
    }

    private static List<Method> methods(Class<?> solution, String name) {
        List<Method> methods = new ArrayList<>();
        Set<String> signatures = new HashSet<>();
        for (Class<?> one = solution; one != null && one.getClassLoader() == solution.getClassLoader(); ) {
            List<Method> own = new ArrayList<>();
            for (Method method : one.getDeclaredMethods()) {
                String signature = List.of(method.getParameterTypes()).toString();
                boolean real = !method.isSynthetic() && !Modifier.isAbstract(method.getModifiers());
                if (real && method.getName().equals(name) && signatures.add(signature)) {
                    method.setAccessible(true);
                    own.add(method);
                }
            }
            // The JVM gives them in no particular order.
            own.sort(BY_RANK);
            methods.addAll(own);
            one = one.getSuperclass();
        }
        return methods;
    }

    private static Constructor<?> constructor(Class<?> solution) {
        try {
            Constructor<?> found = solution.getDeclaredConstructor();
            found.setAccessible(true);
            return Modifier.isAbstract(solution.getModifiers()) ? null : found;
        } catch (NoSuchMethodException error) {
            return null;
        }
    }

    private byte[] outcome(Constructor<?> constructor, List<Method> methods, byte[] blob) {
        Object result;
        try {
            Node[] call = Node.parse(blob).items;
            Method chosen = null;
            Object[] arguments = null;
            String problem = null;
            if (call[1].items.length > 0) {
                problem = "Java has no keyword arguments";
            }
            for (int i = 0; i < methods.size() && arguments == null && call[1].items.length == 0; i++) {
                try {
                    chosen = methods.get(i);
                    arguments = Values.arguments(chosen, call[0].items);
                } catch (Mismatch error) {
                    problem = methods.size() == 1 ? error.getMessage() : "no method takes them: " + error.getMessage();
                }
            }
            if (arguments == null) {
                return outcome('e', "ArgumentError", problem, "");
            }
            Object target = Modifier.isStatic(chosen.getModifiers()) ? null : constructor.newInstance();
            result = chosen.invoke(target, arguments);
        } catch (InvocationTargetException error) {
            return failed(error.getCause());
        } catch (Throwable error) {
            return failed(error);
        }
        try {
            Encoder encoder = new Encoder(maxBytes);
            encoder.raw('v');
            encoder.put(result);
            return encoder.bytes();
        } catch (Refusal error) {
            return outcome('u', result.getClass().getTypeName(), error.getMessage(), "");
        } catch (OutOfMemoryError error) {
            return failed(error);
        } catch (Throwable error) {
            // A collection that another thread was changing.
            return outcome('u', result.getClass().getTypeName(), error.toString(), "");
        }
    }

    private byte[] outcome(char kind, String... texts) {
        Encoder encoder = new Encoder(Integer.MAX_VALUE);
        encoder.raw(kind);
        return encoder.texts(texts).bytes();
    }

    private byte[] failed(Throwable error) {
        return outcome('e', error.getClass().getName(), message(error), cause(error));
    }

    private byte[] described(String category, Throwable error) {
        String name = error.getClass().getName();
        return new Encoder(Integer.MAX_VALUE).texts(category, name, message(error), cause(error)).bytes();
    }

    private static String message(Throwable error) {
        try {
            String text = error.getMessage();
            if (text == null) {
                return "";
            }
            int end = Math.min(text.length(), MAX_MESSAGE);
            return text.substring(0, end);
        } catch (Throwable another) {
            return "<unprintable>";
        }
    }

    private static String cause(Throwable error) {
        String text = message(error);
        if (error.getClass() == IOException.class) {
            // What the JDK says of a process that the kernel refused to make: EAGAIN, in numbers alone.
            return text.startsWith("Cannot run program") && text.contains(": error=11, ") ? "processes" : "";
        }
        if (error.getClass() != OutOfMemoryError.class) {
            return "";
        }
        return text.startsWith("unable to create native thread") ? "processes" : "memory";
    }

    /** One write a frame, so that frames cannot be cut by what other threads write. */
    private void send(char kind, byte[] payload) throws IOException {
        ByteBuffer frame = ByteBuffer.allocate(13 + payload.length).order(ByteOrder.LITTLE_ENDIAN);
        frame.put(nonce).put((byte) kind).putInt(payload.length).put(payload);
        channel.write(frame.array());
    }

    private static void flush() {
        try {
            System.out.flush();
            System.err.flush();
        } catch (Throwable error) {
            // The program has put its own stream there.
        }
    }

    /** Loads the solution's classes and sees the JDK, not this program. */
    private static final class Loader extends ClassLoader {
        private final File folder;

        Loader(File folder) {
            super(ClassLoader.getPlatformClassLoader());
            this.folder = folder;
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            try {
                byte[] code = read(new File(folder, name.replace('.', '/') + ".class"));
                return defineClass(name, code, 0, code.length);
            } catch (IOException error) {
                throw new ClassNotFoundException(name);
            }
        }
    }
}
