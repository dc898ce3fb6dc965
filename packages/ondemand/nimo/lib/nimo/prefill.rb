# frozen_string_literal: true

module Nimo
  # What `nimo-advise` would have an application's usual job ask for, for a form.
  class Prefill
    # @param application [String] name or tag of the application
    def initialize(application)
      name = application.to_s
      advice = name.empty? ? nil : Nimo.advice([name])[name]
      @advice = advice if advice && advice['nodes']
    end

    # @return [Integer, nil] nil where the advice does not name it
    def nodes
      asked('nodes')
    end

    # @return [Integer, nil] CPUs of the job
    def cores
      asked('cpus')
    end

    # @return [Integer, nil] time limit, rounded up
    def hours
      limit_s = asked('limit_s')
      limit_s && (limit_s / 3600.0).ceil
    end

    # @return [String, nil] what the numbers rest on
    def help
      time = @advice && Nimo.time_on(@advice, @advice['nodes'])
      return unless time

      "NIMO: about #{time} on #{Nimo.sized(@advice['nodes'], @advice['unit'])}, from #{@advice['runs']} runs."
    end

    private

    def asked(name)
      @advice && @advice['usual'][name]
    end
  end
end
