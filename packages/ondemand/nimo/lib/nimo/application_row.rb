# frozen_string_literal: true

module Nimo
  # What the widget shows of one application.
  class ApplicationRow
    # @param table [Hash] of `nimo predict --json`
    # @param advice [Hash, nil] on its usual job, of `nimo-advise`
    def initialize(table, advice)
      @table = table
      @advice = advice
    end

    def name
      @table['label']
    end

    def runs
      @table['runs'].to_i
    end

    # What its usual job asks for.
    def size
      asked ? Nimo.sized(asked, @advice['unit']) : ''
    end

    def time
      (asked && Nimo.time_on(@advice, asked)) || 'unknown'
    end

    def cpu_use
      used = (@table['uses'] || []).find { |use| use['unit'] == 'cpus' }
      used ? "#{(used['share'] * 100).round} %" : 'unknown'
    end

    def failed
      ends = @table['endings'] || []
      bad = ends.reject { |ending| ending['state'] == 'COMPLETED' }.sum { |ending| ending['runs'].to_i }
      total = ends.sum { |ending| ending['runs'].to_i }
      total.zero? ? 'unknown' : "#{bad} of #{total}"
    end

    private

    def asked
      @advice && @advice['asked']
    end
  end
end
