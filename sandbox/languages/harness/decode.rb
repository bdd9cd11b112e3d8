# The bytes of sandbox/codec.py to values.
#
# In: `Decoder.new(bytes, start).take`, where bytes holds what that codec made. Out: a value that shares
# nothing with any other. Wrong: `Refusal` for a type without a counterpart.
module SandboxHarness
  class Decoder
    # What fills an integer of fewer than eight bytes up, by how many are missing.
    ZEROS = Array.new(8) { |count| ("\0" * count).b.freeze }.freeze
    ONES = Array.new(8) { |count| ("\xFF".b * count).freeze }.freeze
    FOREIGN = {
      "D".ord => "Decimal", "e".ord => "timedelta", "y".ord => "date", "w".ord => "datetime",
      "u".ord => "time"
    }.freeze

    def initialize(bytes, start)
      @bytes = bytes
      @at = start
      @nodes = 0
    end

    def take
      tag = byte
      reader = AT.bind_call(READERS, tag)
      unless reader
        name = FETCH.bind_call(FOREIGN, tag) || "?"
        HARNESS.refuse("an argument of Python's type #{name}, which Ruby has no counterpart for")
      end
      @nodes += 1
      reader.bind_call(self)
    end

    def byte
      value = BYTE_AT.bind_call(@bytes, @at)
      @at += 1
      value
    end

    def slice(size)
      part = BYTE_SLICE.bind_call(@bytes, @at, size)
      @at += size
      part
    end

    def length
      number = byte
      return number if number < 128

      number &= 127
      shift = 7
      while (more = byte) > 127
        number |= (more & 127) << shift
        shift += 7
      end
      number | more << shift
    end

    def nothing
      nil
    end

    def yes
      true
    end

    def no
      false
    end

    def integer
      size = length
      return short if size < 2

      part = slice(size)
      negative = BYTE_AT.bind_call(part, size - 1) > 127
      if size <= 8
        APPEND.bind_call(part, AT.bind_call(negative ? ONES : ZEROS, 8 - size))
        return UNPACK.bind_call(part, "q<")
      end
      value = HEX.bind_call(UNPACK.bind_call(BACKWARDS.bind_call(part), "H*"))
      negative ? ADD.bind_call(value, SHIFT.bind_call(-1, 8 * size)) : value
    end

    def short
      value = byte
      value > 127 ? value - 256 : value
    end

    def tagged_integer
      @at += 1
      integer
    end

    def double
      UNPACK.bind_call(slice(8), "G")
    end

    def complex
      real = double
      COMPLEX.call(real, double)
    end

    def rational
      numerator = tagged_integer
      RATIONAL.call(numerator, tagged_integer)
    end

    def text
      FORCE.bind_call(slice(length), UTF8)
    end

    def binary
      slice(length)
    end

    def array
      count = length
      made = []
      while count > 0
        PUSH.bind_call(made, take)
        count -= 1
      end
      made
    end

    def set
      count = length
      made = MAKE.bind_call(SET)
      while count > 0
        ADD_TO_SET.bind_call(made, take)
        count -= 1
      end
      made
    end

    def mapping
      count = length
      made = {}
      while count > 0
        key = take
        STORE.bind_call(made, key, take)
        count -= 1
      end
      made
    end

    def range
      start = tagged_integer
      stop = tagged_integer
      step = tagged_integer
      made = []
      while step > 0 ? start < stop : start > stop
        @nodes += 1
        HARNESS.refuse("a range of more than #{MAX_NODES} values") if @nodes > MAX_NODES
        PUSH.bind_call(made, start)
        start += step
      end
      made
    end

    COMPLEX = Kernel.method(:Complex).freeze
    RATIONAL = Kernel.method(:Rational).freeze
    READERS = Array.new(256)
    {
      "N" => :nothing, "T" => :yes, "F" => :no, "i" => :integer, "d" => :double, "c" => :complex,
      "Q" => :rational, "s" => :text, "b" => :binary, "a" => :binary, "l" => :array, "t" => :array,
      "q" => :array, "r" => :range, "S" => :set, "Z" => :set, "m" => :mapping, "o" => :mapping,
      "k" => :mapping, "f" => :mapping
    }.each { |tag, name| READERS[tag.ord] = instance_method(name).freeze }
    READERS.freeze
  end
end
