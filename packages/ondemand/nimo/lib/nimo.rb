# frozen_string_literal: true

require 'json'
require 'timeout'

# What `nimo ... --json` says to the user whom the portal runs as.
module Nimo
  TIMEOUT_S = 5
  # Pages ask again every few seconds; a queue that was run forward holds for a minute.
  KEPT_S = 60
  MOST_BYTES = 16 << 20
  @answers = {}

  class << self
    # Path of the command.
    attr_writer :command

    def command
      @command || ENV.fetch('NIMO_COMMAND', '/usr/bin/nimo')
    end

    # Prediction tables: of one application, or all of the user's own.
    # @return [Array<Hash>] empty where nimo knows none, or does not answer
    def applications(name = nil)
      tables = ask('predict', *name)
      tables.is_a?(Array) ? tables : []
    end

    # The user's jobs in the queue.
    # @return [Array<Hash>]
    def waits
      found = ask('wait')
      found.is_a?(Hash) ? found.fetch('rows', []) : []
    end

    # When a job of the user's starts.
    # @return [Hash, nil] start_s, low_s, high_s: half and nine in ten of such jobs
    def start_of(job_id)
      waits.find { |row| row['job_id'].to_s == job_id.to_s && row['start_s'] }
    end

    def forget
      @answers = {}
    end

    # 90 s, 12 min, 3.5 h, 2 days
    def duration(seconds)
      return "#{seconds.round} s" if seconds < 100
      return "#{(seconds / 60.0).round} min" if seconds < 5940

      hours = seconds / 3600.0
      hours < 48 ? "#{hours < 10 ? hours.round(1) : hours.round} h" : "#{(hours / 24).round} days"
    end

    # 1 node, 4 nodes
    def sized(number, unit)
      "#{number} #{number == 1 ? unit.delete_suffix('s') : unit}"
    end

    def moment(epoch_s)
      Time.at(epoch_s).strftime('%a %H:%M')
    end

    private

    def ask(*arguments)
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      at, answer = @answers[arguments]
      return answer if at && now - at < KEPT_S

      answer = run([command, *arguments, '--json'])
      @answers[arguments] = [now, answer]
      answer
    end

    # Without a shell; whatever goes wrong, the portal's page is made without NIMO.
    def run(argv)
      pipe = IO.popen(argv, in: File::NULL, err: File::NULL)
      text = Timeout.timeout(TIMEOUT_S) { pipe.read(MOST_BYTES) }
      JSON.parse(text.to_s)
    rescue SystemCallError, Timeout::Error, JSON::ParserError
      nil
    ensure
      if pipe
        Process.kill(:KILL, pipe.pid) unless text
        pipe.close
      end
    end
  end
end
