# frozen_string_literal: true

module Nimo
  # What the widget shows of one prediction table.
  class ApplicationRow
    # @param table [Hash] of `nimo predict --json`
    def initialize(table)
      @table = table
    end

    def name
      @table['label']
    end

    def runs
      @table['runs'].to_i
    end

    def size
      usual ? Nimo.sized(usual['nodes'], @table.fetch('unit', 'nodes')) : ''
    end

    def time
      place = usual && @table['nodes'].index(usual['nodes'])
      return 'unknown' unless place

      low, median, high = %w[low_s median_s high_s].map { |one| Nimo.duration(@table[one][place]) }
      doubt = @table['verdict'] == 'reliable' ? '' : ', low confidence'
      "#{median} (#{low} to #{high}#{doubt})"
    end

    def cpu_use
      used = (@table['uses'] || []).find { |one| one['unit'] == 'cpus' }
      used ? "#{(used['share'] * 100).round} %" : 'unknown'
    end

    def failed
      ends = @table['endings'] || []
      bad = ends.reject { |one| one['state'] == 'COMPLETED' }.sum { |one| one['runs'].to_i }
      total = ends.sum { |one| one['runs'].to_i }
      total.zero? ? 'unknown' : "#{bad} of #{total}"
    end

    private

    def usual
      (@table['observed'] || []).max_by { |one| one['repeats'].to_i }
    end
  end
end
