# frozen_string_literal: true

module Nimo
  # Builds the smart attributes; extends SmartAttributes::AttributeFactory.
  #
  #   # form.yml
  #   form: [auto_nimo_hours, auto_nimo_cores, auto_nimo_nodes]
  #   attributes:
  #     auto_nimo_hours: {application: jupyter, value: 4, max: 24}
  #
  # `value` is what stands there without a reliable prediction.
  module FormFields
    def build_auto_nimo_hours(opts = {})
      Nimo::FormField.new('auto_nimo_hours', opts, :hours)
    end

    def build_auto_nimo_cores(opts = {})
      Nimo::FormField.new('auto_nimo_cores', opts, :cores)
    end

    def build_auto_nimo_nodes(opts = {})
      Nimo::FormField.new('auto_nimo_nodes', opts, :nodes)
    end
  end
end
