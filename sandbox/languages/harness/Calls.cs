using System;
using System.Collections.Generic;
using System.IO;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Sandbox
{
    /// Answers a job of kind "calls" for a method of a C# class; sandbox/languages/base.py has the contract.
    ///
    /// The method is one of class Solution, in any namespace, or of a class that it extends: static or not, of
    /// any visibility, and spelled exactly so. For an instance method each call has a new Solution, made by the
    /// constructor without parameters. Of several methods the first that takes the arguments is called; those
    /// with int stand before those with long, BigInteger, smaller types, double, float, decimal, and object
    /// comes last (see Decode.Rank). Methods with type parameters of their own or with ref, out or in parameters
    /// are passed over. A void method returns None: what it does to its arguments is not seen. Keyword arguments
    /// are an ArgumentError.
    ///
    /// A Python value becomes an argument by the type of the parameter, or the call is an ArgumentError:
    ///
    ///   sbyte ... ulong, BigInteger     int within the type's range
    ///   double, float                   float, int (rounded to the type; an overflow is an error)
    ///   decimal                         Decimal, int (exactly, or an error)
    ///   Complex                         complex, float, int
    ///   bool                            bool
    ///   char                            str of one UTF-16 unit
    ///   string                          str
    ///   byte[]                          bytes, bytearray
    ///   other arrays; List, IList,      list, tuple, deque (T[,]: lists of one length each)
    ///     ICollection, IEnumerable,
    ///     their read-only and untyped
    ///     kin, LinkedList, Queue, Stack
    ///   HashSet, ISet, SortedSet        set, frozenset
    ///   Dictionary, IDictionary,        dict and its kin
    ///     IReadOnlyDictionary,
    ///     SortedDictionary, SortedList
    ///   Tuple, ValueTuple, KeyValuePair list or tuple of that many
    ///   T?                              None, or what T takes
    ///   object                          None, bool, int (else long, else BigInteger), double, Complex, decimal,
    ///                                   string, byte[], List, HashSet, Dictionary, each of object
    ///   other reference types           None only
    ///
    /// Missing optional parameters take their defaults, and `params` the rest of the arguments, or one list.
    ///
    /// A result becomes a Python value by its class:
    ///
    ///   null                            None
    ///   bool, integers, BigInteger      bool, int
    ///   float, double, Complex          float (a float exactly as the double it equals), complex
    ///   decimal                         Decimal
    ///   char, string                    str (a lone surrogate stays one)
    ///   byte[]                          bytes
    ///   other arrays, lists, queues,    list, a Stack from its bottom (a tuple within a key)
    ///     keys and values of Dictionary
    ///   HashSet, SortedSet              set (a frozenset within a key)
    ///   the dictionaries                dict, in their order
    ///   Tuple, ValueTuple, KeyValuePair tuple
    ///   other classes, subclasses too   no encoding: their code could answer as it likes
    ///
    /// Where a method is declared to return IEnumerable, with or without a type, its result is enumerated as a
    /// part of the call, so what it yields is a list.
    ///
    /// What a call throws is its error, under the class's full name. OutOfMemoryException is marked as the
    /// limit's.
    public static class Calls
    {
        private const string CallsPath = "/tmp/calls.bin";
        private const int Results = 3, FirstFree = 10, DupCloseOnExec = 1030, Interrupted = 4;
        private const int ExitLost = 71;
        private const int MaxMessage = 1000;
        // Mono takes about 50 ms a MiB to unwind a stack that has overflown.
        private const int StackBytes = 16 << 20;

        private static int channel;
        private static byte[] nonce;
        private static readonly List<byte[]> Blobs = new List<byte[]>();
        private static readonly Dictionary<MethodInfo, Func<object, object[], object>> Invokers =
            new Dictionary<MethodInfo, Func<object, object[], object>>();
        private static int maxBytes;

        [DllImport("libc", SetLastError = true)]
        private static extern IntPtr write(int file, IntPtr data, UIntPtr size);

        [DllImport("libc", SetLastError = true)]
        private static extern int fcntl(int file, int command, int argument);

        [DllImport("libc")]
        private static extern int close(int file);

        [DllImport("libc")]
        private static extern void _exit(int status);

        /// Arguments: the method's name, the solution's assembly, and the bytes that a value may take.
        public static void Main(string[] arguments)
        {
            try
            {
                channel = fcntl(Results, DupCloseOnExec, FirstFree);
                close(Results);
                maxBytes = int.Parse(arguments[2]);
                ReadCalls();
                var thread = new Thread(() => _exit(Guarded(arguments[0], arguments[1])), StackBytes);
                thread.Start();
                thread.Join();
            }
            catch (Exception error)
            {
                Console.Error.WriteLine(error);
            }
            _exit(ExitLost);
        }

        private static void ReadCalls()
        {
            var data = new BinaryReader(new MemoryStream(File.ReadAllBytes(CallsPath)));
            File.Delete(CallsPath);
            nonce = data.ReadBytes(8);
            for (uint count = data.ReadUInt32(); count > 0; count--)
                Blobs.Add(data.ReadBytes((int)data.ReadUInt32()));
        }

        private static int Guarded(string name, string path)
        {
            try
            {
                return Run(name, path);
            }
            catch (Exception error)
            {
                Console.Error.WriteLine(error);
                return ExitLost;
            }
        }

        private static int Run(string name, string path)
        {
            List<MethodInfo> methods;
            ConstructorInfo constructor;
            try
            {
                var solution = Find(Assembly.LoadFrom(path));
                if (solution == null)
                    return Missing("there is no class Solution");
                RuntimeHelpers.RunClassConstructor(solution.TypeHandle);
                methods = Methods(solution, name, out var passedOver);
                if (methods.Count == 0)
                    return Missing("class Solution has no method '" + name + "'" + passedOver);
                var any = BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic;
                constructor = solution.IsAbstract ? null : solution.GetConstructor(any, null, Type.EmptyTypes, null);
                if (constructor == null)
                    methods.RemoveAll(one => !one.IsStatic);
                if (methods.Count == 0)
                    return Missing("'" + name + "' is not static, and no Solution can be made without arguments");
            }
            catch (Exception error)
            {
                if (error is ThreadAbortException)
                    Thread.ResetAbort();
                var cause = error is TypeInitializationException && error.InnerException != null
                    ? error.InnerException : error;
                Send('X', Encode.Texts("load", NameOf(cause), MessageOf(cause), CauseOf(cause)));
                Flush();
                return 1;
            }
            Send('R', new byte[0]);
            foreach (var blob in Blobs)
                Send('O', Outcome(constructor, methods, blob));
            Flush();
            Send('D', new byte[] { (byte)'i', 1, 0 });
            return 0;
        }

        private static int Missing(string message)
        {
            Send('X', Encode.Texts("missing", "AttributeError", message, ""));
            return 1;
        }

        /// Class Solution: the one without a namespace, else the only one.
        private static Type Find(Assembly assembly)
        {
            var found = new List<Type>();
            foreach (var type in assembly.GetTypes())
            {
                if (type.Name != "Solution" || type.IsNested || type.IsGenericTypeDefinition)
                    continue;
                if (type.Namespace == null)
                    return type;
                found.Add(type);
            }
            return found.Count == 1 ? found[0] : null;
        }

        private static List<MethodInfo> Methods(Type solution, string name, out string passedOver)
        {
            var methods = new List<MethodInfo>();
            var seen = new HashSet<string>();
            passedOver = "";
            var flags = BindingFlags.Static | BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic
                | BindingFlags.DeclaredOnly;
            for (var type = solution; type != null && type.Assembly == solution.Assembly; type = type.BaseType)
            {
                var own = new List<MethodInfo>();
                foreach (var method in type.GetMethods(flags))
                {
                    if (method.Name != name || method.IsAbstract)
                        continue;
                    if (!Decode.Takes(method))
                        passedOver = " without type parameters and ref, out or in parameters";
                    else if (seen.Add(string.Join<ParameterInfo>(",", method.GetParameters())))
                        own.Add(method);
                }
                own.Sort((one, other) =>
                {
                    int order = Decode.Rank(one).CompareTo(Decode.Rank(other));
                    return order != 0 ? order : string.CompareOrdinal(one.ToString(), other.ToString());
                });
                methods.AddRange(own);
            }
            return methods;
        }

        private static byte[] Outcome(ConstructorInfo constructor, List<MethodInfo> methods, byte[] blob)
        {
            object result;
            try
            {
                MethodInfo chosen = null;
                object[] arguments = null;
                string problem = null;
                var call = Node.Parse(blob).Items;
                if (call[1].Items.Length > 0)
                    problem = "C# has no keyword arguments here";
                for (int i = 0; i < methods.Count && arguments == null && call[1].Items.Length == 0; i++)
                {
                    try
                    {
                        chosen = methods[i];
                        arguments = Decode.Arguments(chosen, call[0].Items);
                    }
                    catch (Mismatch error)
                    {
                        problem = (methods.Count == 1 ? "" : "no method takes them: ") + error.Message;
                    }
                }
                if (arguments == null)
                    return Join('e', Encode.Texts("ArgumentError", problem, ""));
                object target = null;
                if (!chosen.IsStatic)
                    target = constructor.Invoke(null);
                result = Invoker(chosen)(target, arguments);
                if (Encode.IsLazy(chosen.ReturnType))
                    result = Encode.Enumerated(result);
            }
            catch (Exception error)
            {
                if (error is ThreadAbortException)
                    Thread.ResetAbort();
                return Failed(error is TargetInvocationException && error.InnerException != null ? error.InnerException : error);
            }
            try
            {
                return Join('v', new Encode(maxBytes).Value(result));
            }
            catch (OutOfMemoryException error)
            {
                return Failed(error);
            }
            catch (Exception error)
            {
                // Other than a Refusal: a collection that another thread was changing.
                return Join('u', Encode.Texts(result.GetType().FullName ?? result.GetType().Name, error.Message, ""));
            }
        }

        /// Code that calls a method without MethodInfo.Invoke, below which a stack overflow cannot be caught.
        private static Func<object, object[], object> Invoker(MethodInfo method)
        {
            if (Invokers.TryGetValue(method, out var made))
                return made;
            var types = new[] { typeof(object), typeof(object[]) };
            var dynamic = new DynamicMethod("call", typeof(object), types, typeof(Calls).Module, true);
            var code = dynamic.GetILGenerator();
            if (!method.IsStatic)
            {
                code.Emit(OpCodes.Ldarg_0);
                code.Emit(method.DeclaringType.IsValueType ? OpCodes.Unbox : OpCodes.Castclass, method.DeclaringType);
            }
            var parameters = method.GetParameters();
            for (int i = 0; i < parameters.Length; i++)
            {
                code.Emit(OpCodes.Ldarg_1);
                code.Emit(OpCodes.Ldc_I4, i);
                code.Emit(OpCodes.Ldelem_Ref);
                code.Emit(OpCodes.Unbox_Any, parameters[i].ParameterType);
            }
            code.Emit(method.IsVirtual && !method.DeclaringType.IsValueType ? OpCodes.Callvirt : OpCodes.Call, method);
            if (method.ReturnType == typeof(void))
                code.Emit(OpCodes.Ldnull);
            else
                code.Emit(OpCodes.Box, method.ReturnType);
            code.Emit(OpCodes.Ret);
            made = (Func<object, object[], object>)dynamic.CreateDelegate(typeof(Func<object, object[], object>));
            return Invokers[method] = made;
        }

        private static byte[] Failed(Exception error)
        {
            return Join('e', Encode.Texts(NameOf(error), MessageOf(error), CauseOf(error)));
        }

        private static byte[] Join(char kind, byte[] rest)
        {
            var all = new byte[rest.Length + 1];
            all[0] = (byte)kind;
            rest.CopyTo(all, 1);
            return all;
        }

        private static string NameOf(Exception error)
        {
            return error.GetType().FullName ?? error.GetType().Name;
        }

        private static string MessageOf(Exception error)
        {
            try
            {
                var text = error.Message ?? "";
                return text.Length > MaxMessage ? text.Substring(0, MaxMessage) : text;
            }
            catch (Exception)
            {
                return "<unprintable>";
            }
        }

        private static string CauseOf(Exception error)
        {
            // What Mono says of a thread and of a process that the kernel refused to make.
            var kind = error.GetType();
            if (kind == typeof(ExecutionEngineException))
                return MessageOf(error).StartsWith("Couldn't create thread", StringComparison.Ordinal) ? "processes" : "";
            if (kind.FullName == "System.ComponentModel.Win32Exception")
                return MessageOf(error) == "Out of memory" ? "processes" : "";
            if (kind != typeof(OutOfMemoryException))
                return "";
            return error.Message.IndexOf("thread", StringComparison.OrdinalIgnoreCase) >= 0 ? "processes" : "memory";
        }

        /// One write a frame, so that frames cannot be cut by what other threads write.
        private static void Send(char kind, byte[] payload)
        {
            var frame = new byte[13 + payload.Length];
            nonce.CopyTo(frame, 0);
            frame[8] = (byte)kind;
            for (int i = 0; i < 4; i++)
                frame[9 + i] = (byte)(payload.Length >> 8 * i);
            payload.CopyTo(frame, 13);
            var pinned = GCHandle.Alloc(frame, GCHandleType.Pinned);
            for (int sent = 0; sent < frame.Length;)
            {
                long size = (long)write(channel, pinned.AddrOfPinnedObject() + sent, (UIntPtr)(frame.Length - sent));
                if (size < 0 && Marshal.GetLastWin32Error() != Interrupted)
                    _exit(ExitLost);
                sent += (int)Math.Max(size, 0);
            }
            pinned.Free();
        }

        private static void Flush()
        {
            try
            {
                Console.Out.Flush();
                Console.Error.Flush();
            }
            catch (Exception)
            {
                // The program has put its own writer there.
            }
        }
    }
}
