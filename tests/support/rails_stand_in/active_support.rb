require "active_support/current_attributes"
