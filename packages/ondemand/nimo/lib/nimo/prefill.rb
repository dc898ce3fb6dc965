# frozen_string_literal: true

module Nimo
  # Hours, cores and nodes of an application's runs, for a form.
  class Prefill
    # @param application [String] name or tag of the application
    def initialize(application)
      @table = application.to_s.empty? ? nil : Nimo.applications(application.to_s).first
      @table = nil unless @table && place && verdict == 'reliable'
    end

    # @return [Integer, nil] nil where no reliable prediction says it
    def nodes
      size if unit == 'nodes'
    end

    # @return [Integer, nil] CPUs of the job
    def cores
      return unless @table
      return size if unit == 'cpus'

      layout = @table['layout'] || {}
      cpus = layout['cpus'].to_i
      return unless cpus.positive? && unit == 'nodes'

      layout['in_all'] ? cpus : (cpus * size if layout['each'] == 'node')
    end

    # @return [Integer, nil] time limit: above what 99 of 100 runs need, and every one that was completed
    def hours
      return unless @table

      longest = (@table['longest'] || []).select { |one| one['nodes'] == size }.map { |one| one['time_s'] }
      [1, (([tail_s] + longest).max / 3600.0).ceil].max
    end

    # @return [String, nil] what the numbers rest on
    def help
      return unless @table

      low, high = %w[low_s high_s].map { |name| Nimo.duration(@table[name][place]) }
      "NIMO: about #{Nimo.duration(@table['median_s'][place])} on #{Nimo.sized(size, unit)} " \
        "(nine in ten runs: #{low} to #{high}; #{@table['runs']} runs)."
    end

    private

    def unit
      @table && @table.fetch('unit', 'nodes')
    end

    # The size that most runs had, but not beyond the knee of the curve.
    def size
      return unless @table

      usual = (@table['observed'] || []).max_by { |one| one['repeats'].to_i }
      [usual && usual['nodes'], @table['knee']].compact.min
    end

    def place
      @table['nodes'].index(size)
    end

    def verdict
      (@table['verdicts'] || [])[place] || @table['verdict']
    end

    def tail_s
      tail = (@table['tails'] || []).max_by { |one| one['share'] }
      tail ? tail['time_s'][place] : @table['high_s'][place]
    end
  end
end
