# frozen_string_literal: true

# What the other parts need of Ruby, taken before the solution can redefine it.
#
# The harness is intrinsics.rb, encode.rb, decode.rb and calls.rb, put one after another into one file.
# Methods are called on values only as UnboundMethods through `bind_call`, which stays what it is since its
# class is frozen. Plain operators are used on the harness's own numbers: a solution that redefines those of
# Integer spoils nothing but its own results.
module SandboxHarness
  require "set"

  # The name is taken from the solution's sight before it is loaded.
  HARNESS = self

  def self.take(owner, name)
    owner.instance_method(name).freeze
  end

  BINARY = Encoding::BINARY
  UTF8 = Encoding::UTF_8
  ASCII = Encoding::US_ASCII

  SAME = take(BasicObject, :equal?)
  CLASS_OF = take(Kernel, :class)
  INSTANCE_VARIABLE = take(Kernel, :instance_variable_get)
  METHOD_OF = take(Kernel, :method)
  NAME_OF = take(Module, :name)
  ABOVE = take(Class, :superclass)
  CALL = take(Method, :call)
  ADD = take(Integer, :+)
  SHIFT = take(Integer, :<<)
  BELOW = take(Integer, :<)
  ABSOLUTE = take(Integer, :abs)
  BITS = take(Integer, :bit_length)
  IN_BASE = take(Integer, :to_s)
  TO_FLOAT = take(Integer, :to_f)
  NOT_A_NUMBER = take(Float, :nan?)
  FINITE = take(Float, :finite?)
  WHOLE = take(Float, :to_i)
  EQUAL_FLOAT = take(Float, :eql?)
  NUMERATOR = take(Rational, :numerator)
  DENOMINATOR = take(Rational, :denominator)
  REAL = take(Complex, :real)
  IMAGINARY = take(Complex, :imaginary)
  SYMBOL_TEXT = take(Symbol, :to_s)
  TO_SYMBOL = take(String, :to_sym)
  APPEND = take(String, :<<)
  AS_BINARY = take(String, :b)
  BYTES = take(String, :bytesize)
  BYTE_AT = take(String, :getbyte)
  BYTE_SLICE = take(String, :byteslice)
  ENCODING_OF = take(String, :encoding)
  FORCE = take(String, :force_encoding)
  VALID = take(String, :valid_encoding?)
  TRANSCODE = take(String, :encode)
  REPLACE_ALL = take(String, :gsub)
  SCRUB = take(String, :scrub)
  CHARACTERS = take(String, :[])
  BACKWARDS = take(String, :reverse)
  PAD_LEFT = take(String, :rjust)
  UNPACK = take(String, :unpack1)
  HEX = take(String, :hex)
  ORDER = take(String, :<=>)
  PACK = take(Array, :pack)
  COUNT = take(Array, :length)
  AT = take(Array, :at)
  PUSH = take(Array, :push)
  SORT = take(Array, :sort)
  STORE = take(Hash, :[]=)
  FETCH = take(Hash, :[])
  PAIRS = take(Hash, :to_a)
  KEYS = take(Hash, :keys)
  SIZE = take(Hash, :size)
  MAKE = take(Class, :new)
  ADD_TO_SET = take(Set, :add)
  SET_ITEMS = take(Set, :to_a)
  # A Set was a class written in Ruby around a Hash, until it became one of the interpreter's own.
  SET_HOLDS_HASH = Set.new.instance_variable_defined?(:@hash)
  SET = Set
  MESSAGE = take(Exception, :to_s)
  WRITE = take(IO, :syswrite)
  FLUSH = take(IO, :flush)
  RAISE = Kernel.method(:raise).freeze
  PROCESS_ID = Process.method(:pid).freeze
  LEAVE = Process.method(:exit!).freeze
  STREAMS = [STDOUT, STDERR].freeze

  MAX_DEPTH = 100
  MAX_NODES = 1_000_000
  MAX_BYTES = 64 << 20
  MAX_FRACTION_BITS = 8 * 1024

  # Raised where a value is refused, and rescued by the harness alone.
  class Refusal < Exception
    attr_accessor :why
  end
  REFUSED = Refusal.new("refused")

  def self.refuse(why)
    REFUSED.why = why
    CALL.bind_call(RAISE, REFUSED)
  end

  def self.class_name(kind)
    name = NAME_OF.bind_call(kind)
    name ? CHARACTERS.bind_call(name, 0, 100) : "anonymous"
  end
end
