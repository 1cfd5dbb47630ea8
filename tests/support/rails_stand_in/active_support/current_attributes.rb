# As much of Rails' class of this name as Sidekiq's middleware calls: Rails is not installed with it.
module ActiveSupport
  class CurrentAttributes
    def self.attribute(*names)
      names.each do |name|
        define_singleton_method(name) { attributes[name] }
        define_singleton_method("#{name}=") { |value| attributes[name] = value }
      end
    end

    def self.attributes
      Thread.current[:"attributes of #{name}"] ||= {}
    end

    def self.set(values)
      before = attributes.dup
      values.each { |name, value| public_send("#{name}=", value) }
      yield
    ensure
      attributes.replace(before)
    end
  end
end
