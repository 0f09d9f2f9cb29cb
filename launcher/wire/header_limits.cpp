#include "launcher/wire/header_limits.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace muster {

namespace {

using Json = nlohmann::json;

// Builds nothing: counts, and ends the parser by an exception.
class Limits : public Json::json_sax_t {
 public:
  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception& why) override {
    throw std::runtime_error(why.what());
  }

 private:
  bool count() {
    if (++values_ > header_values_limit) throw std::runtime_error("it holds too many values");
    return true;
  }
  bool enter() {
    if (++depth_ > header_depth_limit) throw std::runtime_error("it nests too deeply");
    return count();
  }
  bool leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  int values_ = 0;
};

}  // namespace

void check_header_limits(const std::string& header) {
  Limits limits;
  Json::sax_parse(header, &limits, Json::input_format_t::cbor);
}

}  // namespace muster
