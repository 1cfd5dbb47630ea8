# frozen_string_literal: true

# Prints what the jobs of a Ruby application take, for `kiqbridge contract check` and `kiqbridge contract stubs`.
#
#   bin/rails runner kiqbridge_contract.rb > rails.json
#   bundle exec ruby -r ./app/jobs.rb kiqbridge_contract.rb > ruby.json
#
# It lists each class that has Sidekiq's `perform_async` and each one of Active Job, with the parameters of its
# `perform`. Ruby's methods have no types, so each is "any". It runs no job and needs no Redis.
#
# Jobs that the application enqueues for others, for which it has no class, are listed in an environment variable:
#
#   KIQBRIDGE_ENQUEUES="SendInvoice/2 HealthPulse/0" bin/rails runner kiqbridge_contract.rb

require "json"

module KiqbridgeContract
  VERSION = 1

  module_function

  def document
    { contract: VERSION, app: app, language: "ruby", jobs: jobs.sort.to_h, enqueues: enqueues.sort.to_h }
  end

  def app
    return Rails.application.class.module_parent_name if defined?(Rails) && Rails.respond_to?(:application) && Rails.application

    File.basename(Dir.pwd)
  end

  def jobs
    Rails.application.eager_load! if defined?(Rails) && Rails.respond_to?(:application) && Rails.application
    ObjectSpace.each_object(Class).each_with_object({}) do |klass, found|
      next if klass.name.nil? || klass.singleton_class? || wrapper?(klass)
      next unless sidekiq?(klass) || active_job?(klass)
      next unless klass.method_defined?(:perform) && klass.instance_method(:perform).owner != Object

      found[klass.name] = described(klass)
    end
  end

  def sidekiq?(klass)
    klass.respond_to?(:perform_async) && klass.respond_to?(:get_sidekiq_options)
  end

  def active_job?(klass)
    defined?(ActiveJob::Base) && klass < ActiveJob::Base
  end

  # The classes in which Sidekiq and Rails wrap other jobs.
  def wrapper?(klass)
    klass.name.start_with?("Sidekiq::", "ActiveJob::", "ActiveStorage::", "ActionMailer::", "ActionMailbox::", "Turbo::")
  end

  def described(klass)
    method = klass.instance_method(:perform)
    shown = { parameters: [] }
    method.parameters.each_with_index do |(kind, name), index|
      case kind
      when :req, :opt
        parameter = { name: (name || "argument_#{index + 1}").to_s, type: "any" }
        parameter[:optional] = true if kind == :opt
        shown[:parameters] << parameter
      when :rest
        shown[:takes_more] = true
      end
    end
    shown[:queue] = queue(klass)
    file, line = method.source_location
    shown[:place] = "#{file.delete_prefix("#{Dir.pwd}/")}:#{line}" if file && file.start_with?(Dir.pwd)
    shown
  end

  def queue(klass)
    return klass.get_sidekiq_options["queue"].to_s if sidekiq?(klass)

    name = klass.queue_name
    name.is_a?(Proc) ? "" : name.to_s
  end

  def enqueues
    ENV.fetch("KIQBRIDGE_ENQUEUES", "").split.to_h do |entry|
      name, count = entry.split("/", 2)
      parameters = Array.new(count.to_i) { |index| { name: "argument_#{index + 1}", type: "any" } }
      [name, { parameters: parameters, takes_more: count.nil? }]
    end
  end
end

puts JSON.pretty_generate(KiqbridgeContract.document)
