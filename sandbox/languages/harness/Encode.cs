using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Numerics;

namespace Sandbox
{
    /// A value that has no encoding, or is past a bound.
    internal sealed class Refusal : Exception
    {
        public Refusal(string message) : base(message) { }
    }

    /// Writes values as sandbox/codec.py does (the table stands at the head of Calls). No code of theirs runs.
    internal sealed class Encode
    {
        private const int MaxDepth = 100;
        private const int MaxNodes = 1000000;
        // What a set or dict weighs in values beside itself.
        private const int Weight = 4;

        private static readonly HashSet<Type> Lists = new HashSet<Type>
        {
            typeof(List<>), typeof(LinkedList<>), typeof(Queue<>), typeof(Stack<>),
            typeof(Dictionary<,>.KeyCollection), typeof(Dictionary<,>.ValueCollection),
        };
        private static readonly HashSet<Type> Sets = new HashSet<Type> { typeof(HashSet<>), typeof(SortedSet<>) };
        private static readonly HashSet<Type> Maps = new HashSet<Type>
        {
            typeof(Dictionary<,>), typeof(SortedDictionary<,>), typeof(SortedList<,>),
        };
        private static readonly HashSet<Type> Tuples = new HashSet<Type>
        {
            typeof(KeyValuePair<,>), typeof(Tuple<>), typeof(Tuple<,>), typeof(Tuple<,,>), typeof(Tuple<,,,>),
            typeof(Tuple<,,,,>), typeof(Tuple<,,,,,>), typeof(Tuple<,,,,,,>), typeof(ValueTuple<>),
            typeof(ValueTuple<,>), typeof(ValueTuple<,,>), typeof(ValueTuple<,,,>), typeof(ValueTuple<,,,,>),
            typeof(ValueTuple<,,,,,>), typeof(ValueTuple<,,,,,,>),
        };

        // Kinds of numbers that the keys of the current map hold: 1, 1.0 and True are one key in Python.
        [Flags]
        private enum Kinds { None = 0, Bool = 1, Int = 2, Float = 4, Decimal = 8, Complex = 16 }

        private readonly int maxBytes;
        private byte[] data = new byte[64];
        private int size;
        private int nodes;
        private Kinds kinds;

        public Encode(int maxBytes)
        {
            this.maxBytes = maxBytes;
        }

        /// A list of texts.
        public static byte[] Texts(params string[] texts)
        {
            return new Encode(int.MaxValue).Value(texts);
        }

        public byte[] Value(object value)
        {
            Put(value, 0, false);
            return Bytes();
        }

        public static bool IsTuple(Type type)
        {
            return type.IsGenericType && Tuples.Contains(type.GetGenericTypeDefinition());
        }

        /// Whether a method declared to return `type` promises no more than something to enumerate.
        public static bool IsLazy(Type type)
        {
            return type == typeof(IEnumerable)
                || type.IsGenericType && type.GetGenericTypeDefinition() == typeof(IEnumerable<>);
        }

        /// What an enumeration yields, as far as it could be encoded; what has an encoding already stays.
        public static object Enumerated(object value)
        {
            if (value == null || value is string || IsKnown(value.GetType()))
                return value;
            var found = new List<object>();
            foreach (var one in (IEnumerable)value)
            {
                found.Add(one);
                if (found.Count > MaxNodes)
                    break;
            }
            return found;
        }

        private static bool IsKnown(Type type)
        {
            if (type.IsArray || type == typeof(ArrayList))
                return true;
            var open = type.IsGenericType ? type.GetGenericTypeDefinition() : type;
            return Lists.Contains(open) || Sets.Contains(open) || Maps.Contains(open);
        }

        private byte[] Bytes()
        {
            var made = new byte[size];
            Array.Copy(data, made, size);
            return made;
        }

        /// A key must be something that Python can hash.
        private void Put(object value, int depth, bool key)
        {
            Count(1);
            if (value == null)
            {
                Raw('N');
                return;
            }
            var type = value.GetType();
            // An enum has the type code of the integers that it is made of.
            switch (type.IsEnum ? TypeCode.Object : Type.GetTypeCode(type))
            {
                case TypeCode.Boolean:
                    kinds |= Kinds.Bool;
                    Raw((bool)value ? 'T' : 'F');
                    return;
                case TypeCode.SByte: case TypeCode.Int16: case TypeCode.Int32: case TypeCode.Int64:
                case TypeCode.Byte: case TypeCode.UInt16: case TypeCode.UInt32:
                    kinds |= Kinds.Int;
                    Small(Convert.ToInt64(value));
                    return;
                case TypeCode.UInt64:
                    kinds |= Kinds.Int;
                    Large((ulong)value);
                    return;
                case TypeCode.Single: case TypeCode.Double:
                    kinds |= Kinds.Float;
                    double number = value is float ? (float)value : (double)value;
                    Raw('d');
                    // As keys both zeros are one in Python.
                    Number(key && number == 0 ? 0 : number);
                    return;
                case TypeCode.Decimal:
                    kinds |= Kinds.Decimal;
                    Text('D', ((decimal)value).ToString(CultureInfo.InvariantCulture));
                    return;
                case TypeCode.Char:
                    Text('s', value.ToString());
                    return;
                case TypeCode.String:
                    Text('s', (string)value);
                    return;
            }
            if (type == typeof(BigInteger))
            {
                kinds |= Kinds.Int;
                Large((BigInteger)value);
            }
            else if (type == typeof(Complex))
            {
                kinds |= Kinds.Complex;
                Raw('c');
                Number(((Complex)value).Real);
                Number(((Complex)value).Imaginary);
            }
            else if (type == typeof(byte[]))
                Blob('b', (byte[])value);
            else if (type.IsArray && ((Array)value).Rank > 1)
                Rectangle((Array)value, new int[((Array)value).Rank], 0, depth, key);
            else if (type.IsArray || type == typeof(ArrayList))
                Items(key ? 't' : 'l', (ICollection)value, depth, key);
            else
                Generic(value, type, depth, key);
        }

        private void Generic(object value, Type type, int depth, bool key)
        {
            var open = type.IsGenericType ? type.GetGenericTypeDefinition() : type;
            if (Lists.Contains(open))
            {
                var all = All((IEnumerable)value);
                if (open == typeof(Stack<>))
                    all.Reverse();
                Items(key ? 't' : 'l', all, depth, key);
            }
            else if (Sets.Contains(open))
                Set(All((IEnumerable)value), depth, key);
            else if (Maps.Contains(open) && !key)
                Map((IDictionary)value, depth);
            else if (Tuples.Contains(open))
                Items('t', Parts(value, type), depth, key);
            else
                throw new Refusal("a value of type " + type + ", which has no encoding");
        }

        private static List<object> Parts(object tuple, Type type)
        {
            var parts = new List<object>();
            if (type.GetGenericTypeDefinition() == typeof(KeyValuePair<,>))
            {
                parts.Add(type.GetProperty("Key").GetValue(tuple));
                parts.Add(type.GetProperty("Value").GetValue(tuple));
                return parts;
            }
            for (int i = 1; i <= type.GetGenericArguments().Length; i++)
                parts.Add(type.IsValueType
                    ? type.GetField("Item" + i).GetValue(tuple) : type.GetProperty("Item" + i).GetValue(tuple));
            return parts;
        }

        private List<object> All(IEnumerable collection)
        {
            var found = new List<object>();
            foreach (var one in collection)
            {
                found.Add(one);
                if (found.Count > MaxNodes - nodes)
                    throw TooMany();
            }
            return found;
        }

        private static Refusal TooMany()
        {
            return new Refusal("more than " + MaxNodes + " values");
        }

        private void Count(int more)
        {
            nodes += more;
            if (nodes > MaxNodes)
                throw TooMany();
        }

        private static void Deeper(int depth)
        {
            if (depth >= MaxDepth)
                throw new Refusal("nested deeper than " + MaxDepth + ", or a cycle");
        }

        private void Room(int more)
        {
            if (more > maxBytes - size)
                throw new Refusal("larger than " + maxBytes + " bytes");
            if (more > data.Length - size)
                Array.Resize(ref data, (int)Math.Min(Math.Max(2L * data.Length, (long)size + more), maxBytes));
        }

        private void Raw(char one)
        {
            Room(1);
            data[size++] = (byte)one;
        }

        private void Head(char tag, int count)
        {
            Raw(tag);
            for (; count > 127; count >>= 7)
                Raw((char)(count & 127 | 128));
            Raw((char)count);
        }

        private void Blob(char tag, byte[] body)
        {
            Head(tag, body.Length);
            Append(body);
        }

        private void Append(byte[] part)
        {
            Room(part.Length);
            Array.Copy(part, 0, data, size, part.Length);
            size += part.Length;
        }

        /// UTF-8, a lone surrogate as three bytes.
        private void Text(char tag, string text)
        {
            int bytes = 0;
            for (int i = 0; i < text.Length; i++)
            {
                bool pair = IsPair(text, i);
                bytes += pair ? 4 : text[i] < 0x80 ? 1 : text[i] < 0x800 ? 2 : 3;
                i += pair ? 1 : 0;
            }
            Head(tag, bytes);
            Room(bytes);
            for (int i = 0; i < text.Length; i++)
            {
                int point = text[i];
                if (IsPair(text, i))
                    point = char.ConvertToUtf32(text[i], text[++i]);
                if (point < 0x80)
                {
                    data[size++] = (byte)point;
                    continue;
                }
                int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
                data[size++] = (byte)(0xff00 >> more + 1 | point >> 6 * more);
                while (more-- > 0)
                    data[size++] = (byte)(0x80 | point >> 6 * more & 0x3f);
            }
        }

        private static bool IsPair(string text, int at)
        {
            return char.IsHighSurrogate(text[at]) && at + 1 < text.Length && char.IsLowSurrogate(text[at + 1]);
        }

        /// Python's int.to_bytes over bit_length() // 8 + 1 bytes.
        private void Small(long number)
        {
            if (number == long.MinValue)
            {
                Large(number);
                return;
            }
            int bits = 0;
            for (long left = Math.Abs(number); left > 0; left >>= 1)
                bits++;
            int bytes = bits / 8 + 1;
            Head('i', bytes);
            Room(bytes);
            for (int i = 0; i < bytes; i++)
                data[size++] = (byte)(number >> 8 * Math.Min(i, 7));
        }

        private void Large(BigInteger number)
        {
            // Two's complement of the absolute value: its length says whether one more byte is due.
            var absolute = BigInteger.Abs(number).ToByteArray();
            int bytes = absolute.Length;
            var shortest = number.ToByteArray();
            Head('i', bytes);
            Room(bytes);
            for (int i = 0; i < bytes; i++)
                data[size++] = i < shortest.Length ? shortest[i] : (byte)(number.Sign < 0 ? 255 : 0);
        }

        private void Number(double number)
        {
            Room(8);
            // Every NaN is one NaN here.
            long bits = double.IsNaN(number) ? 0x7ff8L << 48 : BitConverter.DoubleToInt64Bits(number);
            for (int i = 7; i >= 0; i--)
                data[size++] = (byte)(bits >> 8 * i);
        }

        /// Bounds are told before the first item: a program that made millions has spent its time already.
        private void Begin(char tag, int count, int depth)
        {
            Deeper(depth);
            if (count > MaxNodes - nodes)
                throw TooMany();
            Head(tag, count);
        }

        private void Items(char tag, ICollection items, int depth, bool key)
        {
            Begin(tag, items.Count, depth);
            foreach (var item in items)
                Put(item, depth + 1, key);
        }

        private void Rectangle(Array array, int[] place, int level, int depth, bool key)
        {
            if (level > 0)
                Count(1);
            Begin(key ? 't' : 'l', array.GetLength(level), depth);
            for (int i = 0; i < array.GetLength(level); i++)
            {
                place[level] = i + array.GetLowerBound(level);
                if (level == place.Length - 1)
                    Put(array.GetValue(place), depth + 1, key);
                else
                    Rectangle(array, place, level + 1, depth + 1, key);
            }
        }

        private void Set(List<object> items, int depth, bool key)
        {
            Deeper(depth);
            Count(Weight);
            var parts = Keys(items, depth);
            Begin(key ? 'Z' : 'S', parts.Count, depth);
            parts.Sort(Compare);
            foreach (var part in parts)
                Append(part);
        }

        private void Map(IDictionary map, int depth)
        {
            Deeper(depth);
            Count(Weight);
            var keys = new List<object>();
            var values = new List<object>();
            foreach (DictionaryEntry entry in map)
            {
                keys.Add(entry.Key);
                values.Add(entry.Value);
                if (2 * keys.Count > MaxNodes - nodes)
                    throw TooMany();
            }
            var parts = Keys(keys, depth);
            Head('m', parts.Count);
            for (int i = 0; i < parts.Count; i++)
            {
                Append(parts[i]);
                Put(values[i], depth + 1, false);
            }
        }

        /// Encodes keys one by one and refuses those that Python may take for each other.
        private List<byte[]> Keys(List<object> keys, int depth)
        {
            var outer = data;
            var seen = kinds;
            int before = size;
            long total = size;
            var parts = new List<byte[]>(keys.Count);
            kinds = Kinds.None;
            data = new byte[64];
            foreach (var one in keys)
            {
                size = 0;
                Put(one, depth + 1, true);
                parts.Add(Bytes());
                total += size;
                if (total > maxBytes)
                    throw new Refusal("larger than " + maxBytes + " bytes");
            }
            if ((kinds & kinds - 1) != 0)
                throw new Refusal("keys that are numbers of several types");
            kinds |= seen;
            data = outer;
            size = before;
            var sorted = new List<byte[]>(parts);
            sorted.Sort(Compare);
            for (int i = 1; i < sorted.Count; i++)
                if (Compare(sorted[i - 1], sorted[i]) == 0)
                    throw new Refusal("keys that would be one key in Python");
            return parts;
        }

        private static int Compare(byte[] one, byte[] other)
        {
            int common = Math.Min(one.Length, other.Length);
            for (int i = 0; i < common; i++)
                if (one[i] != other[i])
                    return one[i].CompareTo(other[i]);
            return one.Length.CompareTo(other.Length);
        }
    }
}
