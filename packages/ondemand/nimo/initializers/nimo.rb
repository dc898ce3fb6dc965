# frozen_string_literal: true

Rails.application.config.to_prepare do
  SmartAttributes::AttributeFactory.extend(Nimo::FormFields)
end
