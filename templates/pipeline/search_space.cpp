#include "templates/pipeline/search_space.h"

#include <optional>

namespace muster {
namespace {

void check_choice(MapReader& map) {
  const Value values = map.require("values");
  if (values.is_list() && values.node().items.empty()) values.error("expected at least one value");
  for (const Value& each : values.list()) {
    // A value of a choice may itself be a map: a nested space.
    if (each.is_list()) each.error("expected a value or a nested map, got a list");
  }
}

void check_bounds(MapReader& map, bool quantized) {
  const Value low = map.require("min_value");
  const Value high = map.require("max_value");
  const auto least = low.number();
  const auto most = high.number();
  if (least && most && *least >= *most) high.error("expected more than min_value");
  if (!quantized) return;
  const Value step = map.require("q");
  if (const auto q = step.number(); q && *q <= 0) step.error("expected more than 0");
}

void check_bell(MapReader& map, bool quantized) {
  map.require("mu").number();
  const Value width = map.require("sigma");
  if (const auto sigma = width.number(); sigma && *sigma <= 0) width.error("expected more than 0");
  if (!quantized) return;
  const Value step = map.require("q");
  if (const auto q = step.number(); q && *q <= 0) step.error("expected more than 0");
}

void check_parameter(const Value& value) {
  MapReader map(value);
  const auto type =
      map.require("type").word({"choice", "randint", "uniform", "loguniform", "quniform",
                                "qloguniform", "normal", "lognormal", "qnormal", "qlognormal"});
  if (!type) return;
  const bool quantized = type->starts_with('q');
  if (*type == "choice") {
    check_choice(map);
  } else if (*type == "randint") {
    map.require("upper").integer(1, 2147483647);
  } else if (type->ends_with("uniform")) {
    check_bounds(map, quantized);
  } else {
    check_bell(map, quantized);
  }
  map.finish();
}

}  // namespace

std::set<std::string> read_search_space(const Value& value) {
  std::set<std::string> names;
  for (const Value& each : MapReader(value).entries()) {
    names.insert(each.key());
    if (each.is_null()) each.error("expected a map with 'type'");
    check_parameter(each);
  }
  if (value.is_map() && names.empty()) value.error("expected at least one parameter");
  return names;
}

void read_early_termination(const Value& value) {
  if (!value.present()) return;
  MapReader map(value);
  const auto type = map.require("type").word({"bandit", "median_stopping", "truncation_selection"});
  map.take("evaluation_interval").integer(1, 2147483647);
  map.take("delay_evaluation").integer(0, 2147483647);
  if (!type) return;
  if (*type == "bandit") {
    const Value factor = map.take("slack_factor");
    const Value amount = map.take("slack_amount");
    factor.number();
    amount.number();
    if (!factor.present() && !amount.present()) {
      value.error("expected 'slack_factor' or 'slack_amount'");
    }
  }
  if (*type == "truncation_selection") map.require("truncation_percentage").integer(1, 99);
  map.finish();
}

}  // namespace muster
