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

    # Prediction tables of the user's own applications.
    # @return [Array<Hash>] empty where nimo knows none, or does not answer
    def applications
      tables = ask(%w[predict --json])
      tables.is_a?(Array) ? tables : []
    end

    # Advice on the job that each application's runs usually were.
    # @param names [Array<String>] names or keys
    # @return [Hash] advice by name; without those that nimo-advise has none on
    def advice(names)
      requests = names.map { |name| JSON.generate('id' => name, 'application' => name) }
      answers = ask(%w[--json-lines], requests, program: "#{command}-advise")
      answers.compact.to_h { |answer| [answer['id'], answer['advice']] }.compact
    end

    # The user's jobs in the queue.
    # @return [Array<Hash>]
    def waits
      found = ask(%w[wait --json])
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

    # What an advice says of one count: 17 min (15 min to 18 min, low confidence)
    # @return [String, nil] nil where it says nothing
    def time_on(advice, size)
      row = (advice['rows'] || []).find { |count| count['nodes'] == size }
      return unless row

      range = row['high_s'] ? "#{duration(row['low_s'])} to #{duration(row['high_s'])}" : 'or longer'
      doubt = advice['verdict'] == 'reliable' ? '' : ', low confidence'
      "#{duration(row['time_s'])} (#{range}#{doubt})"
    end

    # 1 node, 4 nodes
    def sized(number, unit)
      "#{number} #{number == 1 ? unit.delete_suffix('s') : unit}"
    end

    def moment(epoch_s)
      Time.at(epoch_s).strftime('%a %H:%M')
    end

    private

    # @param lines [Array<String>] for its standard input; it answers each with a line
    def ask(arguments, lines = nil, program: command)
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      at, answer = @answers[[arguments, lines]]
      return answer if at && now - at < KEPT_S

      text = run([program, *arguments], lines)
      answer = lines ? text.each_line.map { |line| parsed(line) } : parsed(text)
      @answers[[arguments, lines]] = [now, answer]
      answer
    end

    def parsed(text)
      JSON.parse(text)
    rescue JSON::ParserError
      nil
    end

    # Without a shell; whatever goes wrong, the portal's page is made without NIMO.
    # @return [String] what it printed
    def run(argv, lines)
      pipe = IO.popen(argv, 'r+', err: File::NULL)
      text = Timeout.timeout(TIMEOUT_S) do
        pipe.write(*(lines || []).map { |line| "#{line}\n" })
        pipe.close_write
        pipe.read(MOST_BYTES)
      end
      text.to_s
    rescue SystemCallError, Timeout::Error
      ''
    ensure
      if pipe
        Process.kill(:KILL, pipe.pid) unless text
        pipe.close
      end
    end
  end
end
