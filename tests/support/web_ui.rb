# Serves Sidekiq's Web UI alone, as a Rack application, on a free port of 127.0.0.1.
require "securerandom"
require "sidekiq/web"
begin
  require "rack/session"
  require "rackup/handler/webrick"
rescue LoadError # Rack 2 has both in itself
  require "rack/session/cookie"
  require "rack/handler/webrick"
end

Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("REDIS_URL") } }

app = Rack::Builder.new do
  use Rack::Session::Cookie, secret: SecureRandom.hex(32) # the CSRF token's home
  run Sidekiq::Web
end

(defined?(Rackup) ? Rackup : Rack)::Handler::WEBrick.run(app, Host: "127.0.0.1", Port: 0, AccessLog: []) do |server|
  puts "listening on #{server.listeners[0].addr[1]}"
  $stdout.flush
end
