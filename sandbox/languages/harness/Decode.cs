using System;
using System.Collections;
using System.Collections.Generic;
using System.Numerics;
using System.Reflection;
using System.Text;

namespace Sandbox
{
    /// An argument that cannot become what a parameter wants.
    internal sealed class Mismatch : Exception
    {
        public Mismatch(string message) : base(message) { }
    }

    /// One value as sandbox/codec.py wrote it. The supervisor made it, so it is whole and within bounds.
    internal sealed class Node
    {
        private static readonly Node[] None = new Node[0];

        /// The codec's tag.
        public char Tag;
        /// Elements, or keys and values in turn.
        public Node[] Items = None;
        public BigInteger Integer;
        public double Number, Imaginary;
        /// Text or bytes, still encoded.
        public byte[] Body;

        private byte[] data;
        private int at;

        public static Node Parse(byte[] data)
        {
            return new Node { data = data }.Take();
        }

        public bool IsSequence => Tag == 'l' || Tag == 't' || Tag == 'q';
        public bool IsSet => Tag == 'S' || Tag == 'Z';
        public bool IsMap => Tag == 'm' || Tag == 'o' || Tag == 'k' || Tag == 'f';

        /// The name of its type in Python.
        public string Type
        {
            get
            {
                switch (Tag)
                {
                    case 'N': return "None";
                    case 'T': case 'F': return "bool";
                    case 'i': return "int";
                    case 'd': return "float";
                    case 'c': return "complex";
                    case 's': return "str";
                    case 'b': return "bytes";
                    case 'a': return "bytearray";
                    case 'l': return "list";
                    case 't': return "tuple";
                    case 'q': return "deque";
                    case 'S': return "set";
                    case 'Z': return "frozenset";
                    case 'r': return "range";
                    case 'D': return "Decimal";
                    case 'Q': return "Fraction";
                    default: return IsMap ? "dict" : "datetime";
                }
            }
        }

        /// A str: UTF-8 with surrogates let through.
        public string Text
        {
            get
            {
                var text = new StringBuilder(Body.Length);
                for (int i = 0; i < Body.Length;)
                {
                    int first = Body[i++];
                    int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
                    int point = more == 0 ? first : first & 0x3f >> more;
                    for (; more > 0; more--)
                        point = point << 6 | Body[i++] & 0x3f;
                    if (point >= 0x10000)
                        text.Append((char)(0xd7c0 + (point >> 10))).Append((char)(0xdc00 | point & 0x3ff));
                    else
                        text.Append((char)point);
                }
                return text.ToString();
            }
        }

        private Node Take()
        {
            var node = new Node { Tag = (char)data[at++] };
            switch (node.Tag)
            {
                case 'N': case 'T': case 'F':
                    break;
                case 'l': case 't': case 'q': case 'S': case 'Z':
                    node.Items = TakeItems(Length());
                    break;
                case 'm': case 'o': case 'k': case 'f':
                    node.Items = TakeItems(2 * Length());
                    break;
                case 'r': case 'e':
                    node.Items = TakeItems(3);
                    break;
                case 'Q':
                    node.Items = TakeItems(2);
                    break;
                case 'd':
                    node.Number = Double();
                    break;
                case 'c':
                    node.Number = Double();
                    node.Imaginary = Double();
                    break;
                case 'i':
                    node.Integer = new BigInteger(Blob());
                    break;
                default:
                    node.Body = Blob();
                    break;
            }
            return node;
        }

        private Node[] TakeItems(int count)
        {
            var items = new Node[count];
            for (int i = 0; i < count; i++)
                items[i] = Take();
            return items;
        }

        private int Length()
        {
            int number = 0;
            for (int shift = 0; ; shift += 7)
            {
                byte one = data[at++];
                number |= (one & 127) << shift;
                if (one < 128)
                    return number;
            }
        }

        private byte[] Blob()
        {
            var body = new byte[Length()];
            Array.Copy(data, at, body, 0, body.Length);
            at += body.Length;
            return body;
        }

        private double Double()
        {
            long bits = 0;
            for (int i = 0; i < 8; i++)
                bits = bits << 8 | data[at++];
            return BitConverter.Int64BitsToDouble(bits);
        }
    }

    /// Makes arguments of Python values, by the types of the parameters (the table stands at the head of Calls).
    internal static class Decode
    {
        // The numeric types in the order in which an int or float tries them.
        private static readonly Type[] Numbers =
        {
            typeof(int), typeof(long), typeof(BigInteger), typeof(uint), typeof(ulong), typeof(short), typeof(ushort),
            typeof(byte), typeof(sbyte), typeof(double), typeof(float), typeof(decimal), typeof(Complex),
        };
        private static readonly Dictionary<Type, Type> Made = new Dictionary<Type, Type>
        {
            { typeof(IEnumerable<>), typeof(List<>) },
            { typeof(ICollection<>), typeof(List<>) },
            { typeof(IList<>), typeof(List<>) },
            { typeof(IReadOnlyCollection<>), typeof(List<>) },
            { typeof(IReadOnlyList<>), typeof(List<>) },
            { typeof(List<>), typeof(List<>) },
            { typeof(LinkedList<>), typeof(LinkedList<>) },
            { typeof(Queue<>), typeof(Queue<>) },
            { typeof(Stack<>), typeof(Stack<>) },
            { typeof(ISet<>), typeof(HashSet<>) },
            { typeof(HashSet<>), typeof(HashSet<>) },
            { typeof(SortedSet<>), typeof(SortedSet<>) },
            { typeof(IDictionary<,>), typeof(Dictionary<,>) },
            { typeof(IReadOnlyDictionary<,>), typeof(Dictionary<,>) },
            { typeof(Dictionary<,>), typeof(Dictionary<,>) },
            { typeof(SortedDictionary<,>), typeof(SortedDictionary<,>) },
            { typeof(SortedList<,>), typeof(SortedList<,>) },
        };

        /// Whether arguments by value can be given to a method.
        public static bool Takes(MethodInfo method)
        {
            foreach (var parameter in method.GetParameters())
                if (parameter.ParameterType.IsByRef || parameter.ParameterType.IsPointer)
                    return false;
            return !method.ContainsGenericParameters;
        }

        /// The lower, the sooner a method is tried.
        public static int Rank(MethodInfo method)
        {
            int sum = 0;
            foreach (var parameter in method.GetParameters())
                sum += Rank(parameter.ParameterType) + (IsRest(parameter) ? 1 << 20 : 0);
            return sum;
        }

        private static int Rank(Type type)
        {
            if (type.IsArray)
                return Rank(type.GetElementType());
            int sum = type == typeof(object) ? 1000 : Math.Max(Array.IndexOf(Numbers, type), 0);
            foreach (var argument in type.GetGenericArguments())
                sum += Rank(argument);
            return sum;
        }

        private static bool IsRest(ParameterInfo parameter)
        {
            return parameter.IsDefined(typeof(ParamArrayAttribute), false);
        }

        public static object[] Arguments(MethodInfo method, Node[] given)
        {
            var wanted = method.GetParameters();
            int count = wanted.Length;
            bool rest = count > 0 && IsRest(wanted[count - 1]);
            int single = rest ? count - 1 : count;
            if (given.Length > single && !rest)
                throw new Mismatch(given.Length + " given, where the method has " + count + " parameters");
            var made = new object[count];
            for (int i = 0; i < single; i++)
            {
                if (i < given.Length)
                    made[i] = Argument(given[i], wanted[i].ParameterType, i);
                else if (wanted[i].IsOptional)
                    made[i] = wanted[i].DefaultValue;
                else
                    throw new Mismatch(given.Length + " given, where the method has " + count + " parameters");
            }
            if (rest)
                made[single] = Rest(given, wanted[single].ParameterType, single);
            return made;
        }

        private static object Rest(Node[] given, Type wanted, int from)
        {
            try
            {
                var rest = Array.CreateInstance(wanted.GetElementType(), Math.Max(given.Length - from, 0));
                for (int i = 0; i < rest.Length; i++)
                    rest.SetValue(Argument(given[from + i], wanted.GetElementType(), from + i), i);
                return rest;
            }
            catch (Mismatch)
            {
                if (given.Length != from + 1)
                    throw;
                return Argument(given[from], wanted, from);
            }
        }

        private static object Argument(Node node, Type type, int position)
        {
            try
            {
                return Convert(node, type);
            }
            catch (Mismatch error)
            {
                throw new Mismatch("argument " + (position + 1) + ": " + error.Message);
            }
        }

        private static Mismatch No(Node node, Type type)
        {
            return new Mismatch(node.Type + " is no " + type);
        }

        private static object Convert(Node node, Type type)
        {
            var inner = Nullable.GetUnderlyingType(type);
            if (node.Tag == 'N')
            {
                if (type.IsValueType && inner == null)
                    throw No(node, type);
                return null;
            }
            type = inner ?? type;
            object made = null;
            if (type == typeof(object))
                made = Natural(node);
            else if (type.IsArray)
                made = MakeArray(node, type);
            else if (type.IsGenericType)
                made = MakeGeneric(node, type);
            else if (type == typeof(IEnumerable) || type == typeof(ICollection) || type == typeof(IList))
                made = Sequence(node, typeof(object));
            else if (type == typeof(ArrayList))
                made = node.IsSequence ? new ArrayList(Sequence(node, typeof(object))) : null;
            else
                made = Single(node, type);
            if (made == null)
                throw No(node, type);
            return made;
        }

        private static object Single(Node node, Type type)
        {
            if (type == typeof(bool))
                return node.Tag == 'T' ? true : node.Tag == 'F' ? false : (object)null;
            if (type == typeof(string))
                return node.Tag == 's' ? node.Text : null;
            if (type == typeof(char))
            {
                var text = node.Tag == 's' ? node.Text : "";
                return text.Length == 1 ? text[0] : (object)null;
            }
            if (type == typeof(BigInteger))
                return node.Tag == 'i' ? node.Integer : (object)null;
            if (type == typeof(double) || type == typeof(float))
                return Float(node, type);
            if (type == typeof(decimal))
                return node.Tag == 'i' ? Decimal(node.Integer, 0, false) : node.Tag == 'D' ? Decimal(node) : (object)null;
            if (type == typeof(Complex))
                return node.Tag == 'c' ? new Complex(node.Number, node.Imaginary)
                    : node.Tag == 'd' || node.Tag == 'i' ? new Complex((double)Float(node, typeof(double)), 0) : (object)null;
            return node.Tag == 'i' && Array.IndexOf(Numbers, type) >= 0 ? Integer(node.Integer, type) : null;
        }

        private static object Integer(BigInteger number, Type type)
        {
            try
            {
                if (type == typeof(int)) return checked((int)number);
                if (type == typeof(long)) return checked((long)number);
                if (type == typeof(uint)) return checked((uint)number);
                if (type == typeof(ulong)) return checked((ulong)number);
                if (type == typeof(short)) return checked((short)number);
                if (type == typeof(ushort)) return checked((ushort)number);
                if (type == typeof(byte)) return checked((byte)number);
                return checked((sbyte)number);
            }
            catch (OverflowException)
            {
                throw new Mismatch("an int beyond the range of " + type);
            }
        }

        private static object Float(Node node, Type type)
        {
            if (node.Tag != 'd' && node.Tag != 'i')
                return null;
            double number = node.Tag == 'd' ? node.Number : (double)node.Integer;
            bool finite = node.Tag == 'i' || !double.IsInfinity(number);
            object made = type == typeof(float) ? (object)(float)number : number;
            if (finite && (made is float ? float.IsInfinity((float)made) : double.IsInfinity(number)))
                throw new Mismatch("a number beyond the range of " + type);
            return made;
        }

        /// Reads the text of a Python Decimal: digits, perhaps with a point and an exponent.
        private static object Decimal(Node node)
        {
            var text = node.Text;
            bool negative = text.StartsWith("-");
            var digits = new StringBuilder();
            int scale = 0, at = negative ? 1 : 0;
            bool point = false;
            for (; at < text.Length && (text[at] == '.' || char.IsDigit(text[at])); at++)
            {
                if (text[at] == '.')
                {
                    point = true;
                    continue;
                }
                digits.Append(text[at]);
                scale += point ? 1 : 0;
            }
            int exponent = 0;
            bool plain = at == text.Length || text[at] == 'E' && int.TryParse(text.Substring(at + 1), out exponent);
            if (!plain || digits.Length == 0 || digits.Length > 60 || Math.Abs((long)exponent) > 60)
                throw new Mismatch("Decimal('" + text + "') is no decimal");
            return Decimal(BigInteger.Parse(digits.ToString()), scale - exponent, negative);
        }

        private static object Decimal(BigInteger number, int scale, bool negative)
        {
            if (number.Sign < 0)
            {
                negative = true;
                number = -number;
            }
            for (; scale < 0; scale++)
                number *= 10;
            if (scale > 28 || number >= BigInteger.One << 96)
                throw new Mismatch("a number beyond the digits of decimal");
            int low = (int)(uint)(number & uint.MaxValue), middle = (int)(uint)(number >> 32 & uint.MaxValue);
            return new decimal(low, middle, (int)(uint)(number >> 64), negative, (byte)scale);
        }

        private static object MakeArray(Node node, Type type)
        {
            var each = type.GetElementType();
            if (type.GetArrayRank() > 1)
                return Rectangle(node, each, type.GetArrayRank());
            if (each == typeof(byte))
                return node.Tag == 'b' || node.Tag == 'a' ? node.Body.Clone() : null;
            if (!node.IsSequence)
                return null;
            var made = Array.CreateInstance(each, node.Items.Length);
            for (int i = 0; i < node.Items.Length; i++)
                made.SetValue(Convert(node.Items[i], each), i);
            return made;
        }

        private static object Rectangle(Node node, Type each, int rank)
        {
            var lengths = new int[rank];
            var level = node;
            for (int i = 0; i < rank; i++)
            {
                if (!level.IsSequence)
                    return null;
                lengths[i] = level.Items.Length;
                if (i < rank - 1 && lengths[i] == 0)
                    break;
                level = i < rank - 1 ? level.Items[0] : level;
            }
            var made = Array.CreateInstance(each, lengths);
            Fill(made, node, each, new int[rank], 0);
            return made;
        }

        private static void Fill(Array made, Node node, Type each, int[] place, int level)
        {
            if (!node.IsSequence || node.Items.Length != made.GetLength(level))
                throw new Mismatch("rows that do not make a " + made.GetType());
            for (int i = 0; i < node.Items.Length; i++)
            {
                place[level] = i;
                if (level == place.Length - 1)
                    made.SetValue(Convert(node.Items[i], each), place);
                else
                    Fill(made, node.Items[i], each, place, level + 1);
            }
        }

        private static IList Sequence(Node node, Type each)
        {
            if (!node.IsSequence)
                return null;
            var made = (IList)Activator.CreateInstance(typeof(List<>).MakeGenericType(each));
            foreach (var item in node.Items)
                made.Add(Convert(item, each));
            return made;
        }

        private static object MakeGeneric(Node node, Type type)
        {
            var open = type.GetGenericTypeDefinition();
            var arguments = type.GetGenericArguments();
            if (Encode.IsTuple(type))
                return MakeTuple(node, type, arguments);
            if (!Made.TryGetValue(open, out var maker))
                return null;
            if (arguments.Length == 2)
                return MakeMap(node, maker.MakeGenericType(arguments), arguments[0], arguments[1]);
            bool set = maker == typeof(HashSet<>) || maker == typeof(SortedSet<>);
            if (set ? !node.IsSet : !node.IsSequence)
                return null;
            var items = (IList)Activator.CreateInstance(typeof(List<>).MakeGenericType(arguments));
            foreach (var item in node.Items)
            {
                items.Add(Convert(item, arguments[0]));
                if (set)
                    CheckKey(items[items.Count - 1]);
            }
            if (maker == typeof(List<>))
                return items;
            object made;
            try
            {
                made = Activator.CreateInstance(maker.MakeGenericType(arguments), items);
            }
            catch (TargetInvocationException)
            {
                throw new Mismatch("elements that " + maker.Name + " does not take");
            }
            int count = set ? (int)made.GetType().GetProperty("Count").GetValue(made) : items.Count;
            if (count != items.Count)
                throw new Mismatch("elements that are one element of " + maker.Name);
            return made;
        }

        private static object MakeMap(Node node, Type type, Type keys, Type values)
        {
            if (!node.IsMap)
                return null;
            var made = (IDictionary)Activator.CreateInstance(type);
            for (int i = 0; i < node.Items.Length; i += 2)
            {
                var key = Convert(node.Items[i], keys);
                CheckKey(key);
                var value = Convert(node.Items[i + 1], values);
                try
                {
                    made.Add(key, value);
                }
                catch (Exception error) when (error is ArgumentException || error is InvalidOperationException)
                {
                    throw new Mismatch("keys that " + type.Name + " does not take, or that are one key there");
                }
            }
            return made;
        }

        private static void CheckKey(object key)
        {
            if (key is ICollection || key != null && key.GetType().IsGenericType && !Encode.IsTuple(key.GetType()))
                throw new Mismatch("a collection is no key by its value in C#");
        }

        private static object MakeTuple(Node node, Type type, Type[] arguments)
        {
            if (!node.IsSequence || node.Items.Length != arguments.Length || arguments.Length > 7)
                return null;
            var parts = new object[arguments.Length];
            for (int i = 0; i < parts.Length; i++)
                parts[i] = Convert(node.Items[i], arguments[i]);
            return Activator.CreateInstance(type, parts);
        }

        private static object Natural(Node node)
        {
            switch (node.Tag)
            {
                case 'T': case 'F':
                    return node.Tag == 'T';
                case 'i':
                    if (node.Integer >= int.MinValue && node.Integer <= int.MaxValue)
                        return (int)node.Integer;
                    return node.Integer >= long.MinValue && node.Integer <= long.MaxValue
                        ? (long)node.Integer : (object)node.Integer;
                case 'd':
                    return node.Number;
                case 'c':
                    return new Complex(node.Number, node.Imaginary);
                case 'D':
                    return Decimal(node);
                case 's':
                    return node.Text;
                case 'b': case 'a':
                    return node.Body.Clone();
            }
            if (node.IsSequence)
                return Sequence(node, typeof(object));
            if (node.IsSet)
                return MakeGeneric(node, typeof(HashSet<object>));
            return MakeMap(node, typeof(Dictionary<object, object>), typeof(object), typeof(object));
        }
    }
}
