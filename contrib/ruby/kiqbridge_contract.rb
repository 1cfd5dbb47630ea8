# frozen_string_literal: true

# Prints what the jobs of a Ruby application take, for `kiqbridge contract check` and `kiqbridge contract stubs`.
#
#   bin/rails runner kiqbridge_contract.rb > rails.json
#   bundle exec ruby -r ./app/jobs.rb kiqbridge_contract.rb > ruby.json
#
# It lists each class that has Sidekiq's `perform_async` and each one of Active Job, with the parameters of its
# `perform`. Ruby's methods have no types, so each is "any". It runs no job and needs no Redis.
#
# A class without `perform` is one that the application enqueues for others, with arguments that are not known. Jobs
# that it enqueues for others without a class, or with a number of arguments to check, are listed in an environment
# variable:
#
#   KIQBRIDGE_ENQUEUES="SendInvoice/2 HealthPulse/0" bin/rails runner kiqbridge_contract.rb

require "json"

module KiqbridgeContract
  VERSION = 1

  module_function

  def document
    { contract: VERSION, app: app, language: "ruby", jobs: jobs.sort.to_h, enqueues: stubs.merge(enqueues).sort.to_h }
  end

  def app
    return Rails.application.class.module_parent_name if defined?(Rails) && Rails.respond_to?(:application) && Rails.application

    File.basename(Dir.pwd)
  end

  def jobs
    classes.select { |klass| performs?(klass) }.to_h { |klass| [klass.name, described(klass)] }
  end

  # Classes without `perform` are enqueued for others, with arguments that are not known, or are a base of others.
  def stubs
    without = classes.reject { |klass| performs?(klass) || %w[ApplicationJob ApplicationWorker].include?(klass.name) }
    without.reject { |klass| classes.any? { |other| other < klass } }.to_h do |klass|
      shown = { parameters: [], takes_more: true, queue: queue(klass) }
      shown[:active_job] = true if active_job?(klass)
      [klass.name, shown]
    end
  end

  def classes
    @classes ||= begin
      Rails.application.eager_load! if defined?(Rails) && Rails.respond_to?(:application) && Rails.application
      ObjectSpace.each_object(Class).select do |klass|
        !klass.name.nil? && !klass.singleton_class? && !wrapper?(klass) && (sidekiq?(klass) || active_job?(klass))
      end
    end
  end

  # Active Job has a `perform` of its own, which only raises.
  def performs?(klass)
    return false unless klass.method_defined?(:perform)

    owner = klass.instance_method(:perform).owner
    owner != Object && !owner.name.to_s.start_with?("ActiveJob::", "Sidekiq::")
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
    keywords = []
    method.parameters.each_with_index do |(kind, name), index|
      case kind
      when :req, :opt
        parameter = { name: (name || "argument_#{index + 1}").to_s, type: "any" }
        parameter[:optional] = true if kind == :opt
        shown[:parameters] << parameter
      when :rest
        shown[:takes_more] = true
      when :keyreq, :key
        parameter = { name: name.to_s, type: "any", keyword: true }
        parameter[:optional] = true if kind == :key
        keywords << parameter
      when :keyrest
        shown[:takes_more_keywords] = true
      end
    end
    shown[:parameters].concat(keywords)
    shown[:active_job] = true if active_job?(klass)
    shown[:queue] = queue(klass)
    file, line = method.source_location
    shown[:place] = "#{file.delete_prefix("#{Dir.pwd}/")}:#{line}" if file && file.start_with?(Dir.pwd)
    shown
  end

  # "" where only a job knows it, by its arguments.
  def queue(klass)
    return klass.get_sidekiq_options["queue"].to_s if sidekiq?(klass)

    name = klass.queue_name
    return klass.new.queue_name if name.equal?(ActiveJob::Base.queue_name) # the default one, with its prefix

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
