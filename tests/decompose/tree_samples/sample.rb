require 'set'
module Geo
  def self.make(n) = Sq.new(n)
  class Sq
    attr_reader :n
    def initialize(n)
      @n = n
    end
    def area; n ** 2; end
    def ==(other) other.n == n end
    def n=(v)
      @n = v
    end
    class << self
      def unit
        new(1)
      end
    end
    private def secret(a, b = 1, *c, k: 2, **o, &blk) # note
      yield a
    rescue ArgumentError
      1
    end
  end
end
def twice(x) = x * 2
def main
  puts Geo.make(3).area + twice(2) + Geo::Sq.unit.area
end
main
