# Values to the bytes of sandbox/codec.py.
#
# In: `Encoder.new.bytes_of(value)`. Out: a binary String. Wrong: `Refusal` for a value without a counterpart
# and past the bounds of depth, number and size.
module SandboxHarness
  class Encoder
    # The integers from -127 to 127 in whole, negative ones where a negative index finds them.
    TINY = Array.new(255) { |index| ["i", 1, index < 128 ? index : index - 255].pack("aCc").freeze }.freeze
    # The tag and length of an integer, by its size.
    HEADS = Array.new(9) { |size| "i#{size.chr}".freeze }.freeze
    NAN = ["7ff8000000000000"].pack("H*").freeze
    SURROGATE = /\xED[\xA0-\xBF][\x80-\xBF]/n.freeze

    def bytes_of(value)
      @out = AS_BINARY.bind_call("")
      @nodes = 0
      put(value, 0, false)
      @out
    end

    # `key`: the value is a dict's key or a set's element, or inside one, where Python wants hashable types.
    def put(value, depth, key)
      @nodes += 1
      refuse("more than #{MAX_NODES} values") if @nodes > MAX_NODES
      kind = CLASS_OF.bind_call(value)
      writer = FETCH.bind_call(WRITERS, kind)
      refuse("an object of class #{HARNESS.class_name(kind)}, which has no encoding") unless writer
      writer.bind_call(self, value, depth, key)
    end

    def refuse(why)
      HARNESS.refuse(why)
    end

    def full
      refuse("larger than #{MAX_BYTES} bytes")
    end

    def raw(bytes)
      APPEND.bind_call(@out, bytes)
    end

    def length(number)
      while number > 127
        APPEND.bind_call(@out, number & 127 | 128)
        number >>= 7
      end
      APPEND.bind_call(@out, number)
    end

    def open(tag, count, weight, depth)
      # A cycle has no end, so this bound finds it too.
      refuse("nested deeper than #{MAX_DEPTH}, or a cycle") if depth >= MAX_DEPTH
      refuse("more than #{MAX_NODES} values") if @nodes + count > MAX_NODES
      @nodes += weight
      raw(tag)
      length(count)
    end

    # Only what has no bounded size need be asked: a million of all others are smaller than the bound.
    def room(size)
      full if BYTES.bind_call(@out) + size > MAX_BYTES
    end

    def blob(tag, bytes)
      size = BYTES.bind_call(bytes)
      room(size)
      raw(tag)
      length(size)
      raw(bytes)
    end

    def nothing(_value, _depth, _key)
      raw("N")
    end

    def yes(_value, _depth, _key)
      raw("T")
    end

    def no(_value, _depth, _key)
      raw("F")
    end

    def integer(value, _depth, _key)
      bits = BITS.bind_call(ABSOLUTE.bind_call(value))
      size = bits / 8 + 1
      if bits < 8
        APPEND.bind_call(@out, AT.bind_call(TINY, value))
      elsif bits < 63
        APPEND.bind_call(@out, AT.bind_call(HEADS, size))
        APPEND.bind_call(@out, BYTE_SLICE.bind_call(PACK.bind_call([value], "q<"), 0, size))
      else
        room(size)
        raw("i")
        length(size)
        raw(wide(value, size))
      end
    end

    # Two's complement of any width, lowest byte first.
    def wide(value, size)
      value = ADD.bind_call(value, SHIFT.bind_call(1, 8 * size)) if BELOW.bind_call(value, 0)
      hex = PAD_LEFT.bind_call(IN_BASE.bind_call(value, 16), 2 * size, "0")
      BACKWARDS.bind_call(PACK.bind_call([hex], "H*"))
    end

    def float(value, _depth, _key)
      raw("d")
      double(value)
    end

    def double(value)
      raw(NOT_A_NUMBER.bind_call(value) ? NAN : PACK.bind_call([value], "G"))
    end

    def complex(value, _depth, _key)
      raw("c")
      part_of_complex(REAL.bind_call(value))
      part_of_complex(IMAGINARY.bind_call(value))
    end

    def part_of_complex(part)
      part = TO_FLOAT.bind_call(part) if SAME.bind_call(CLASS_OF.bind_call(part), Integer)
      exact = SAME.bind_call(CLASS_OF.bind_call(part), Float)
      refuse("a Complex of something other than int and float") unless exact
      double(part)
    end

    def rational(value, _depth, _key)
      raw("Q")
      part_of_rational(NUMERATOR.bind_call(value))
      part_of_rational(DENOMINATOR.bind_call(value))
    end

    def part_of_rational(part)
      if BITS.bind_call(ABSOLUTE.bind_call(part)) >= MAX_FRACTION_BITS
        refuse("a Rational part larger than #{MAX_FRACTION_BITS / 8} bytes")
      end
      integer(part, 0, false)
    end

    def symbol(value, depth, key)
      string(SYMBOL_TEXT.bind_call(value), depth, key)
    end

    def string(value, _depth, _key)
      encoding = ENCODING_OF.bind_call(value)
      return blob("b", value) if SAME.bind_call(encoding, BINARY)

      value = in_utf8(value) unless SAME.bind_call(encoding, UTF8) || SAME.bind_call(encoding, ASCII)
      bytes = AS_BINARY.bind_call(value)
      blob(VALID.bind_call(value) || valid_but_for_surrogates(bytes) ? "s" : "b", bytes)
    end

    def in_utf8(value)
      TRANSCODE.bind_call(value, UTF8)
    rescue EncodingError
      refuse("a String whose encoding is not UTF-8")
    end

    def valid_but_for_surrogates(bytes)
      VALID.bind_call(FORCE.bind_call(REPLACE_ALL.bind_call(bytes, SURROGATE, "?"), UTF8))
    end

    def array(value, depth, key)
      count = COUNT.bind_call(value)
      open(key ? "t" : "l", count, 0, depth)
      index = 0
      while index < count
        put(AT.bind_call(value, index), depth + 1, key)
        index += 1
      end
    end

    def mapping(value, depth, key)
      refuse("a Hash as a key or element") if key
      refuse("more than #{MAX_NODES} values") if @nodes + 2 * SIZE.bind_call(value) > MAX_NODES
      # A copy, since another thread of the solution may be at work on the original.
      pairs = PAIRS.bind_call(value)
      count = COUNT.bind_call(pairs)
      open("m", count, 4, depth)
      seen = {}
      index = 0
      while index < count
        pair = AT.bind_call(pairs, index)
        hashable(AT.bind_call(pair, 0), depth + 1, seen)
        put(AT.bind_call(pair, 1), depth + 1, false)
        index += 1
      end
    end

    def set(value, depth, key)
      items = SET_HOLDS_HASH ? items_in_hash(value) : SET_ITEMS.bind_call(value)
      count = COUNT.bind_call(items)
      open(key ? "Z" : "S", count, 4, depth)
      outer = @out
      size = BYTES.bind_call(outer)
      parts = []
      seen = {}
      index = 0
      while index < count
        @out = AS_BINARY.bind_call("")
        hashable(AT.bind_call(items, index), depth + 1, seen)
        PUSH.bind_call(parts, @out)
        size += BYTES.bind_call(@out)
        full if size > MAX_BYTES
        index += 1
      end
      @out = outer
      parts = SORT.bind_call(parts) { |left, right| ORDER.bind_call(left, right) }
      index = 0
      while index < count
        raw(AT.bind_call(parts, index))
        index += 1
      end
    end

    def items_in_hash(value)
      held = INSTANCE_VARIABLE.bind_call(value, :@hash)
      refuse("a Set without its elements") unless SAME.bind_call(CLASS_OF.bind_call(held), Hash)
      KEYS.bind_call(held)
    end

    # Some that differ here are one in Python: 1 and 1.0 and true, :a and "a".
    def hashable(value, depth, seen)
      start = BYTES.bind_call(@out)
      put(value, depth, true)
      value = 1 if SAME.bind_call(value, true)
      value = 0 if SAME.bind_call(value, false)
      value = whole(value) if SAME.bind_call(CLASS_OF.bind_call(value), Float)
      unless SAME.bind_call(CLASS_OF.bind_call(value), Integer)
        value = BYTE_SLICE.bind_call(@out, start, BYTES.bind_call(@out) - start)
      end
      refuse("two keys or elements that are equal in Python") if FETCH.bind_call(seen, value)
      STORE.bind_call(seen, value, true)
    end

    def whole(value)
      return value unless FINITE.bind_call(value)

      number = WHOLE.bind_call(value)
      EQUAL_FLOAT.bind_call(value, TO_FLOAT.bind_call(number)) ? number : value
    end

    WRITERS = {}.compare_by_identity
    {
      NilClass => :nothing, TrueClass => :yes, FalseClass => :no, Integer => :integer, Float => :float,
      Complex => :complex, Rational => :rational, String => :string, Symbol => :symbol, Array => :array,
      Hash => :mapping, SET => :set
    }.each { |kind, name| WRITERS[kind] = instance_method(name).freeze }
    WRITERS.freeze
  end
end
