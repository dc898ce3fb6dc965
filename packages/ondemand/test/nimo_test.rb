# frozen_string_literal: true

# Run by tests/packages/test_ondemand.py, which makes what `nimo` answers: NIMO_COMMAND.
require 'erb'
require 'minitest/autorun'
require 'tmpdir'

# What the plugin uses of the portal.
module SmartAttributes
  class Attribute
    attr_reader :id, :opts

    def initialize(id, opts = {})
      @id = id
      @opts = opts.transform_keys(&:to_sym)
    end

    def value
      opts[:value].to_s
    end

    def cacheable?(_default)
      opts[:cacheable]
    end
  end

  class AttributeFactory; end
end

module Rails
  def self.application
    config = Object.new
    def config.to_prepare
      yield
    end
    Struct.new(:config).new(config)
  end
end

PLUGIN = File.expand_path('../nimo', __dir__)
%w[nimo nimo/prefill nimo/form_field nimo/form_fields nimo/application_row].each do |name|
  require "#{PLUGIN}/lib/#{name}"
end
load "#{PLUGIN}/initializers/nimo.rb"

Session = Struct.new(:job_id, :info, :queued?)
Info = Struct.new(:dispatch_time)

class NimoTest < Minitest::Test
  include ERB::Util

  def setup
    Nimo.command = nil
    Nimo.forget
    ENV['TZ'] = 'UTC'
  end

  def build(field, **opts)
    SmartAttributes::AttributeFactory.public_send("build_auto_nimo_#{field}", opts)
  end

  def test_hours_cores_and_nodes_are_those_of_the_advice
    hours, cores, nodes = %w[hours cores nodes].map { |field| build(field, application: 'solve') }
    assert_equal({ script: { wall_time: 3 * 3600 } }, hours.submit)
    assert_equal({ script: { cores: 192 } }, cores.submit)
    assert_equal({ script: { native: ['-N', 4] } }, nodes.submit(fmt: 'slurm'))
    assert_equal('NIMO: about 17 min (15 min to 18 min) on 4 nodes, from 10 runs.', nodes.opts[:help])
    refute(hours.cacheable?(true))
    assert_equal('1 node', Nimo.sized(1, 'nodes'))
  end

  def test_a_form_shows_what_a_doubtful_advice_names_and_says_so
    hours = build('hours', application: 'doubtful')
    assert_equal('3', hours.value)
    assert_includes(hours.opts[:help], '(15 min to 18 min, low confidence)')
  end

  # Made-up stores: numbers are of the lines that nimo-advise prints; without one, of the usual job.
  def test_a_form_has_what_the_lines_ask_for
    JSON.parse(File.read(ENV.fetch('NIMO_CASES'))).each do |shown|
      name = shown['name']
      values = %w[hours cores nodes].to_h { |field| [field, build(field, application: name, value: 7).value] }
      expected = { 'hours' => shown['hours'], 'cores' => shown['cores'], 'nodes' => shown['nodes'] }
      assert_equal(expected.transform_values { |number| (number || 7).to_s }, values, name)
    end
  end

  def test_limits_of_the_form_hold
    assert_equal('2', build('hours', application: 'solve', max: 2).value)
    assert_equal('6', build('nodes', application: 'solve', min: 6).value)
  end

  def test_without_an_advised_count_the_sites_value_stands
    %w[session unknown slow broken].each do |name|
      field = build('hours', application: name, value: 4)
      assert_equal(['4', nil], [field.value, field.opts[:help]], name)
    end
    assert_equal('1', build('nodes').value)
    Nimo.command = '/nowhere/nimo'
    assert_equal('7', build('hours', application: 'other', value: 7).value)
  end

  def test_names_reach_no_shell
    Dir.mktmpdir do |folder|
      build('hours', application: "solve; touch #{folder}/made")
      assert_empty(Dir.children(folder))
    end
  end

  def test_a_page_asks_once_a_minute
    3.times { Nimo.waits }
    Nimo.command = '/nowhere/nimo'
    assert_equal([4711, 4712], Nimo.waits.map { |row| row['job_id'] })
  end

  def test_the_card_shows_an_interval_where_there_is_one
    shown = render('batch_connect/sessions/card/_expected_time', Session.new('4711', Info.new(0), true))
    assert_includes(shown, 'about Sat 10:00')
    assert_includes(shown, 'between Sat 09:30 and Sat 12:00')
    slurm = render('batch_connect/sessions/card/_expected_time', Session.new('4799', Info.new(1_790_000_000), true))
    assert_includes(slurm, '2026-09-21')
    assert_empty(render('batch_connect/sessions/card/_expected_time', Session.new('4711', Info.new(0), false)).strip)
  end

  def test_the_widget_shows_applications_and_waits
    shown = render('widgets/_nimo')
    ['&lt;b&gt;solve', '4 nodes', '17 min (15 min to 18 min)', '62 %', '3 of 20', 'Sat 10:00', 'unknown'].each do |text|
      assert_includes(shown, text)
    end
    refute_includes(shown, '<b>')
    File.write(ENV['NIMO_PAGE'], shown) if ENV['NIMO_PAGE']
    Nimo.forget
    Nimo.command = '/nowhere/nimo'
    assert_empty(render('widgets/_nimo').strip)
  end

  private

  def render(name, session = nil)
    local = binding
    local.local_variable_set(:session, session)
    ERB.new(File.read("#{PLUGIN}/views/#{name}.html.erb"), trim_mode: '-').result(local)
  end

  # The portal's translations.
  def t(_key)
    'Expected start time:'
  end
end
