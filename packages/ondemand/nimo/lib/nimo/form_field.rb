# frozen_string_literal: true

module Nimo
  # A number field with what NIMO predicts in it.
  class FormField < SmartAttributes::Attribute
    LABELS = { hours: 'Number of hours', cores: 'Cores', nodes: 'Number of nodes' }.freeze

    # @param kind [Symbol] hours, cores or nodes
    def initialize(id, opts, kind)
      super(id, opts)
      @kind = kind
      prefill = Prefill.new(@opts.delete(:application))
      number = prefill.public_send(kind)
      @opts[:value] = within(number) if number
      @opts[:help] = [@opts[:help], prefill.help].compact.join(' ') if number
      @opts = { min: 1, step: 1, value: 1 }.merge(@opts)
    end

    def widget
      'number_field'
    end

    def label(*)
      (opts[:label] || LABELS.fetch(@kind)).to_s
    end

    def required
      true
    end

    # Last time's value does not take the place of this prediction, unless form.yml says `cacheable: true`.
    def cacheable?(_default)
      opts.key?(:cacheable) ? super : false
    end

    def submit(fmt: nil)
      number = [value.to_i, 1].max
      case @kind
      when :hours then { script: { wall_time: number * 3600 } }
      when :cores then { script: { cores: number } }
      else fmt == 'slurm' ? { script: { native: ['-N', number] } } : {}
      end
    end

    private

    def within(number)
      number = [number, opts[:max].to_i].min if opts[:max]
      opts[:min] ? [number, opts[:min].to_i].max : number
    end
  end
end
