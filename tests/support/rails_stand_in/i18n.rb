# As much of the I18n library as Sidekiq's middleware calls.
module I18n
  def self.locale
    Thread.current[:locale] || :en
  end

  def self.locale=(chosen)
    Thread.current[:locale] = chosen&.to_sym
  end

  def self.default_locale
    :en
  end

  def self.with_locale(chosen)
    before = Thread.current[:locale]
    self.locale = chosen
    yield
  ensure
    Thread.current[:locale] = before
  end
end
