# Answers a job of kind "calls" for Ruby.
#
# In: ruby calls.rb CALLS RESULTS SOLUTION ENTRY (a file, a descriptor, an absolute path, a name); the
# contract is that of sandbox/languages/base.py. Out: frames on RESULTS.
# Wrong: a value without a counterpart is refused for its call alone (arguments: an error "ArgumentError";
# results: "u"); a solution that does not parse, load or have the method is a FAILURE frame.
#
#   from Python                    here                           to Python
#   None, bool                     nil, true, false               None, bool
#   int                            Integer                        int
#   float                          Float                          float
#   complex                        Complex                        complex
#   Fraction                       Rational                       Fraction
#   str                            String in UTF-8                str
#   bytes, bytearray               String in ASCII-8BIT           bytes
#   list, tuple, range, deque      Array                          list; as a key or set element, tuple
#   set, frozenset                 Set                            set; as a key or set element, frozenset
#   dict (of any kind)             Hash                           dict
#   name of a keyword argument     Symbol                         str
#   Decimal, dates and times: refused
#
# A String in another encoding goes out as str where it can be put into UTF-8; one that claims to be UTF-8 and
# is not goes out as bytes, but for surrogates, which Python lets be. An object of any other class, subclasses
# of these too, has no encoding.
module SandboxHarness
  class Channel
    MAX_MESSAGE = 1000
    EXIT_CHANNEL_LOST = 71
    # name -> class of every exception there is before the solution is loaded
    ERRORS = {}
    ObjectSpace.each_object(Exception.singleton_class) { |kind| ERRORS[kind.name] = kind if kind.name }
    ERRORS.freeze

    def initialize(descriptor, nonce)
      @nonce = nonce
      @owner = Process.pid
      @out = IO.for_fd(descriptor, "wb", autoclose: false)
      # Programs that the solution starts have no business there.
      @out.close_on_exec = true
      @encoder = Encoder.new
    end

    def frame(kind, payload)
      # A fork of this process that comes back this way ends quietly.
      leave(0) unless SAME.bind_call(CALL.bind_call(PROCESS_ID), @owner)
      data = AS_BINARY.bind_call(@nonce)
      APPEND.bind_call(data, kind)
      APPEND.bind_call(data, PACK.bind_call([BYTES.bind_call(payload)], "L<"))
      APPEND.bind_call(data, payload)
      while BYTES.bind_call(data) > 0
        begin
          sent = WRITE.bind_call(@out, data)
          data = BYTE_SLICE.bind_call(data, sent, BYTES.bind_call(data))
        rescue Errno::EAGAIN, Errno::EINTR
          nil
        rescue Exception
          leave(EXIT_CHANNEL_LOST)
        end
      end
    end

    def leave(code)
      CALL.bind_call(LEAVE, code)
    end

    def ready
      frame("R", "")
    end

    def done
      frame("D", @encoder.bytes_of(0))
      flush
      leave(0)
    end

    def flush
      index = 0
      while index < 2
        begin
          FLUSH.bind_call(AT.bind_call(STREAMS, index))
        rescue Exception
          nil
        end
        index += 1
      end
    end

    def value(value)
      payload = AS_BINARY.bind_call("v")
      begin
        APPEND.bind_call(payload, @encoder.bytes_of(value))
      rescue Refusal => refusal
        payload = refused(value, refusal.why)
      rescue NoMemoryError, SystemStackError
        payload = refused(value, "too large or too deep for this process")
      end
      frame("O", payload)
    end

    def refused(value, why)
      name = HARNESS.class_name(CLASS_OF.bind_call(value))
      APPEND.bind_call(AS_BINARY.bind_call("u"), @encoder.bytes_of([name, why, ""]))
    end

    def error(name, message, cause)
      payload = AS_BINARY.bind_call("e")
      APPEND.bind_call(payload, @encoder.bytes_of([name, message, cause]))
      frame("O", payload)
    end

    def raised(exception)
      error(name_of(exception), message_of(exception), cause_of(exception))
    end

    def fail(category, exception)
      failure(category, name_of(exception), message_of(exception), cause_of(exception))
    end

    def failure(category, name, message, cause)
      frame("X", @encoder.bytes_of([category, name, message, cause]))
      flush
      leave(1)
    end

    def name_of(exception)
      kind = CLASS_OF.bind_call(exception)
      name = HARNESS.class_name(kind)
      known = FETCH.bind_call(ERRORS, name)
      # Only the language's own classes may bear their names.
      known && !SAME.bind_call(known, kind) ? "own.#{name}" : name
    end

    # The text that was given to the exception, whatever its class makes of it.
    def message_of(exception)
      text = MESSAGE.bind_call(exception)
      return "" unless SAME.bind_call(CLASS_OF.bind_call(text), String)

      CHARACTERS.bind_call(SCRUB.bind_call(FORCE.bind_call(AS_BINARY.bind_call(text), UTF8)), 0, MAX_MESSAGE)
    rescue Exception
      "<unprintable>"
    end

    def cause_of(exception)
      kind = CLASS_OF.bind_call(exception)
      return "memory" if SAME.bind_call(kind, NoMemoryError)
      return "processes" if SAME.bind_call(kind, Errno::EAGAIN)

      full = SAME.bind_call(kind, ThreadError) && message_of(exception).start_with?("can't create Thread")
      full ? "processes" : ""
    end
  end

  class Calls
    def initialize(path)
      @bytes = File.binread(path)
      File.delete(path)
      @count = @bytes.unpack1("L<", offset: 8)
      @place = 12
      @next = 0
    end

    def nonce
      @bytes.byteslice(0, 8)
    end

    def answer(channel, method)
      while @next < @count
        @next += 1
        start = @place + 4
        @place = start + UNPACK.bind_call(BYTE_SLICE.bind_call(@bytes, @place, 4), "L<")
        one(channel, method, start)
      end
      channel.done
    end

    def one(channel, method, start)
      begin
        args, kwargs = arguments(start)
      rescue Refusal => refusal
        return channel.error("ArgumentError", refusal.why, "")
      end
      begin
        value = CALL.bind_call(method, *args, **kwargs)
      rescue Exception => exception
        return channel.raised(exception)
      end
      channel.value(value)
    end

    def arguments(start)
      args, kwargs = Decoder.new(@bytes, start).take
      named = {}
      names = KEYS.bind_call(kwargs)
      index = 0
      while index < COUNT.bind_call(names)
        name = AT.bind_call(names, index)
        STORE.bind_call(named, TO_SYMBOL.bind_call(name), FETCH.bind_call(kwargs, name))
        index += 1
      end
      [args, named]
    end
  end

  def self.compile(source, path, channel)
    RubyVM::InstructionSequence.compile(source, path, path)
  rescue SyntaxError, EncodingError, ArgumentError => error
    channel.fail("compile", error)
  end

  # The method that `entry(...)` would call at the end of the solution; nil for one of Ruby's own.
  def self.find(main, entry, before)
    found = METHOD_OF.bind_call(main, entry)
    before && SAME_METHOD.bind_call(before, found) ? nil : found
  rescue NameError
    nil
  end
  SAME_METHOD = take(Method, :==)

  def self.run(calls_path, results, path, entry)
    main = TOPLEVEL_BINDING.receiver
    calls = Calls.new(calls_path)
    channel = Channel.new(Integer(results), calls.nonce)
    before = find(main, entry, nil)
    program = compile(File.read(path, encoding: "BOM|UTF-8"), path, channel)
    $LOADED_FEATURES << path
    [Method, UnboundMethod].each(&:freeze)
    [Encoder, Decoder, Channel, Calls].each(&:freeze)
    freeze
    begin
      program.eval
    rescue SystemExit => exit
      channel.failure("exit", "SystemExit", exit.status.to_s, "")
    rescue Exception => exception
      channel.fail("load", exception)
    end
    method = find(main, entry, before)
    channel.failure("missing", "NoMethodError", "the solution has no method '#{entry}'", "") unless method
    channel.ready
    calls.answer(channel, method)
  end
end

SandboxHarness.then do |harness|
  Object.send(:remove_const, :SandboxHarness)
  harness.run(*ARGV.shift(ARGV.length))
end
