#include "templates/profile/reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "health/model/check.h"
#include "health/model/performance.h"
#include "scheduler/model/names.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/spelling.h"
#include "templates/yaml/node.h"
#include "templates/yaml/reader.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

constexpr int most_devices = 1024;            // of a kind, in one node
constexpr std::size_t most_entries = 1000;    // of a list or map: each finding asks all of them
constexpr std::size_t longest_name = 64;      // of a profile or a rule
constexpr std::size_t longest_pattern = 256;  // host paths and device names are shorter
constexpr std::int64_t most_kb = 1LL << 50;   // an exbibyte
constexpr int most_samples = 100;             // later than a hundred, and it is never believed
constexpr int longest_window_s = 30 * 24 * 3600;
// What no benchmark measures any more. `muster health learn --measure` wrote most of them.
constexpr const char* former_floors[] = {"gemm_fp32_gflops", "gemm_gflops", "hbm_read_mb_per_s",
                                         "hbm_write_mb_per_s", "two_node_allreduce_gb_per_s"};
// Profiles of sites may turn them off, or leave devices out of them. To require one is an error.
constexpr std::string_view former_checks[] = {"fab.ber",   "fab.events", "host.bmc",
                                              "perf.burn", "perf.gemm",  "perf.nccl_pair"};
constexpr const char* not_checked = "muster no longer has this check; it has no effect";
constexpr const char* not_measured = "no benchmark measures it; it has no effect";

std::optional<std::int64_t> whole(const Value& value, std::int64_t lowest, std::int64_t highest) {
  const auto number = value.number();
  if (!number) return std::nullopt;
  if (std::floor(*number) == *number && *number >= static_cast<double>(lowest) &&
      *number <= static_cast<double>(highest)) {
    return static_cast<std::int64_t>(*number);
  }
  return value.misfit("a whole number from " + std::to_string(lowest) + " to " +
                      std::to_string(highest));
}

std::optional<double> number_in(const Value& value, double lowest, double highest,
                                const char* words) {
  const auto number = value.number();
  if (!number || (*number >= lowest && *number <= highest)) return number;
  return value.misfit(words);
}

std::optional<double> percent(const Value& value) {
  return number_in(value, 0, 100, "a number from 0 to 100");
}

std::optional<std::string> name_text(const Value& value) {
  const auto text = value.text();
  if (!text || (is_word_of(*text, "-_.") && text->size() <= longest_name)) return text;
  return value.misfit("at most " + std::to_string(longest_name) +
                      " letters, digits, '-', '_' and '.'");
}

std::optional<std::string> pattern_text(const Value& value) {
  const auto text = value.text();
  if (!text || (!text->empty() && text->size() <= longest_pattern)) return text;
  value.error("expected 1 to " + std::to_string(longest_pattern) + " characters");
  return std::nullopt;
}

std::vector<Value> bounded_list(const Value& value) {
  std::vector<Value> items = value.list();
  if (items.size() <= most_entries) return items;
  value.error("expected at most " + std::to_string(most_entries) + " entries");
  return {};
}

std::vector<std::string> texts(const Value& value, bool are_paths = false) {
  std::vector<std::string> out;
  for (const Value& each : bounded_list(value)) {
    const auto text = pattern_text(each);
    if (!text) continue;
    const bool is_odd = are_paths && !text->starts_with('/');
    if (is_odd) each.misfit("an absolute path");
    out.push_back(*text);
  }
  return out;
}

// The keys of a profile, each group in its function.
class ProfileReader {
 public:
  explicit ProfileReader(const std::vector<std::string>& checks) : checks_(checks) {}

  HealthProfileFile read(const Value& root) {
    MapReader map(root);
    profile_.name = name_text(map.require("profile")).value_or("");
    read_match(map.take("match"));
    read_gpu(map.take("gpu"));
    read_infiniband(map.take("ib"));
    read_host(map.take("host"));
    read_floors(map.take("floors"));
    read_required(map.take("required"));
    read_checks(map.take("checks"));
    read_exclude(map.take("exclude"));
    read_breaker(map.take("breaker"));
    map.finish();
    return {std::move(profile_), std::move(match_), {}};
  }

 private:
  void read_match(const Value& value) {
    MapReader map(value);
    profile_.match_gpu_name = pattern_text(map.take("gpu_name")).value_or("");
    profile_.match_gpu_count = map.take("gpu_count").integer(0, most_devices);
    match_.vendor = pattern_text(map.take("vendor")).value_or("");
    match_.product = pattern_text(map.take("product")).value_or("");
    map.finish();
  }

  void read_gpu(const Value& value) {
    MapReader map(value);
    GpuProfile& gpu = profile_.gpu;
    gpu.count = map.take("count").integer(0, most_devices);
    gpu.nvlinks = map.take("nvlinks").integer(0, 64);
    gpu.nvlink_mb_per_s = map.take("nvlink_mb_per_s").integer(1, std::numeric_limits<int>::max());
    gpu.pcie_gen = map.take("pcie_gen").integer(1, 7);
    gpu.pcie_width = map.take("pcie_width").integer(1, 32);
    gpu.ecc = map.take("ecc").boolean();
    gpu.mig = map.take("mig").boolean();
    gpu.persistence = map.take("persistence").boolean();
    map.finish();
  }

  void read_infiniband(const Value& value) {
    MapReader map(value);
    profile_.ib.ports = texts(map.take("ports"));
    profile_.ib.rate_gbps = map.take("rate_gbps").integer(1, 100000);
    profile_.ib.width = map.take("width").word({"1X", "2X", "4X", "8X", "12X"});
    map.finish();
  }

  void read_host(const Value& value) {
    MapReader map(value);
    HostProfile& host = profile_.host;
    host.mem_kb = whole(map.take("mem_kb"), 1, most_kb);
    store(host.mem_tolerance_pct, percent(map.take("mem_tolerance_pct")));
    host.swap_kb = whole(map.take("swap_kb"), 0, most_kb);
    host.nofile = whole(map.take("nofile"), 1, 1LL << 40);
    host.cpus = map.take("cpus").integer(1, 65536);
    host.numa_nodes = map.take("numa_nodes").integer(1, most_devices);
    host.nvmes = map.take("nvmes").integer(0, most_devices);
    host.shm_kb = whole(map.take("shm_kb"), 0, most_kb);
    host.hugepages = whole(map.take("hugepages"), 0, most_kb);
    host.transparent_hugepages =
        map.take("transparent_hugepages").word({"always", "madvise", "never"});
    host.governor = name_text(map.take("governor"));
    host.turbo = map.take("turbo").boolean();
    host.numa_balancing = map.take("numa_balancing").boolean();
    host.mounts = texts(map.take("mounts"), true);
    const Value disks = map.take("disks");
    if (disks.present()) host.disks = texts(disks, true);
    store(host.free_pct, percent(map.take("free_pct")));
    store(host.free_mb, whole(map.take("free_mb"), 0, most_kb / 1024));
    host.services = texts(map.take("services"));
    map.finish();
  }

  void read_floors(const Value& value) {
    MapReader map(value);
    for (const PerformanceMetric& metric : performance_metrics()) {
      if (metric.counts_faults) continue;
      const auto floor = number_in(map.take(metric.name), profile_floor_min, profile_floor_max,
                                   "a positive number");
      if (floor) profile_.floors[std::string(metric.name)] = *floor;
    }
    for (const char* former : former_floors) {
      const Value floor = map.take(former);
      if (floor.present()) floor.warning(not_measured);
    }
    map.finish();
  }

  void read_required(const Value& value) {
    for (const Value& each : bounded_list(value)) {
      const auto check = each.text();
      if (!check) continue;
      check_name(each, each.node().place, *check, false);
      profile_.required.push_back(*check);
    }
  }

  void read_checks(const Value& value) {
    const std::vector<Value> entries = MapReader(value).entries();
    if (entries.size() > most_entries) {
      return value.error("expected at most " + std::to_string(most_entries) + " checks");
    }
    for (const Value& each : entries) {
      check_name(each, each.key_place(), each.key(), true);
      profile_.checks[each.key()] = read_setting(each);
    }
  }

  CheckSetting read_setting(const Value& value) {
    CheckSetting setting;
    MapReader map(value);
    setting.mode = map.take("mode").choice<CheckMode>(EnumWords<CheckMode>::words);
    setting.samples = map.take("samples").integer(1, most_samples);
    const std::vector<CheckLimit> limits = limits_of(value.key());
    for (const CheckLimit& limit : limits) static_cast<void>(map.take(limit.name));
    for (const Value& each : map.entries()) {
      const auto limit = std::ranges::find_if(
          limits, [&](const CheckLimit& one) { return fits_pattern(one.name, each.key()); });
      if (limit != limits.end()) {
        read_limit(map.take(each.key()), *limit, setting);
      } else if (has_unit(each.key())) {
        read_limit(map.take(each.key()), {}, setting);
        if (!checks_.empty()) each.warning("no such limit of this check; it has no effect");
      }
    }
    map.finish();
    return setting;
  }

  // Those of all checks that the pattern fits, and what every check has.
  static std::vector<CheckLimit> limits_of(const std::string& pattern) {
    std::vector<CheckLimit> limits;
    const auto add = [&](const CheckLimit& limit) {
      if (std::ranges::find(limits, limit.name, &CheckLimit::name) == limits.end())
        limits.push_back(limit);
    };
    for (const CheckSpec* check : every_check()) {
      if (!fits_pattern(pattern, check->id)) continue;
      std::ranges::for_each(check->limits, add);
      add(*find_limit(*check, "clear_after_s"));
    }
    return limits;
  }

  static void read_limit(const Value& value, const CheckLimit& limit, CheckSetting& setting) {
    std::optional<double> number;
    if (limit.is_whole) {
      number = value.integer(static_cast<int>(limit.lowest), static_cast<int>(limit.highest));
    } else {
      number = number_in(value, limit.lowest, limit.highest, "a number from 0 to 1e15");
    }
    if (number) setting.limits[value.key()] = *number;
  }

  // A limit that no check has was never an error where it says what it counts or measures.
  static bool has_unit(std::string_view key) {
    constexpr std::string_view units =
        "per_s per_min per_h per_day per_window s ms us min h days pct bytes kb mb gb c mhz mw w "
        "gbps lanes rows pages times errors flaps";
    if (key == "width" || key == "partition" || key == "level") return true;
    return std::ranges::any_of(words_in(units), [&](std::string_view unit) {
      return key == unit || key.ends_with('_' + std::string(unit));
    });
  }

  void read_exclude(const Value& value) {
    for (const Value& each : bounded_list(value)) {
      MapReader map(each);
      CheckExclusion exclusion;
      const Value check = map.require("check");
      exclusion.check = check.text().value_or("");
      if (check.is_scalar()) check_name(check, check.node().place, exclusion.check, true);
      exclusion.device = map.take("device").text().value_or("");
      exclusion.why = map.take("why").text().value_or("");
      map.finish();
      profile_.exclude.push_back(std::move(exclusion));
    }
  }

  void read_breaker(const Value& value) {
    MapReader map(value);
    store(profile_.breaker.min_nodes, map.take("min_nodes").integer(1, 65536));
    store(profile_.breaker.fleet_pct, percent(map.take("fleet_pct")));
    store(profile_.breaker.window_s, map.take("window_s").integer(1, longest_window_s));
    map.finish();
  }

  void check_name(const Value& where, const Place& place, const std::string& name,
                  bool may_be_pattern) const {
    if (checks_.empty()) return;
    const bool is_known = std::ranges::any_of(checks_, [&](const std::string& known) {
      return may_be_pattern ? fits_pattern(name, known) : name == known;
    });
    if (is_known) return;
    if (may_be_pattern && std::ranges::find(former_checks, name) != std::end(former_checks)) {
      return where.warning(not_checked);
    }
    where.findings().add(Severity::error, place, where.path(),
                         where.path() + ": there is no check " + quoted_text(name),
                         where.suggest(name, checks_));
  }

  const std::vector<std::string>& checks_;
  HealthProfile profile_;
  HostMatch match_;
};

std::optional<YamlNode> parse(const std::string& path, std::string_view text, int order,
                              FindingList& findings) {
  return read_yaml(
      std::make_shared<Source>(Source{path, "", std::string(without_byte_order_mark(text)), order}),
      findings);
}

YamlNode merged(YamlNode base, const YamlNode& over) {
  if (base.kind != YamlNode::Kind::map || over.kind != YamlNode::Kind::map) return over;
  for (const Entry& entry : over.entries) {
    const auto found = std::ranges::find(base.entries, entry.key, &Entry::key);
    if (found == base.entries.end()) {
      base.entries.push_back(entry);
    } else {
      found->place = entry.place;
      found->value = merged(std::move(found->value), entry.value);
    }
  }
  base.place = over.place;
  return base;
}

HealthProfileFile read_tree(const std::optional<YamlNode>& tree,
                            const std::vector<std::string>& checks, FindingList& findings) {
  HealthProfileFile file;
  if (tree) {
    const Value root(*tree, "", findings);
    if (root.is_null()) {
      root.error("the file is empty; a profile begins with 'profile: NAME'");
    } else {
      file = ProfileReader(checks).read(root);
    }
  }
  file.findings = findings.take_sorted();
  return file;
}

// ---- the shipped ones

constexpr std::string_view vendor_prefix = "standard_";
// Files of sites may hold them.
constexpr std::pair<std::string_view, std::string_view> former_names[] = {{"b200-8x", "hgx-b200"},
                                                                          {"b300-8x", "hgx-b300"}};

std::string plain_name(std::string_view name) {
  std::string plain = folded(name);
  if (plain.starts_with(vendor_prefix)) plain.erase(0, vendor_prefix.size());
  return plain;
}

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  for (const ShippedProfile& each : shipped_profiles()) names.emplace_back(each.name);
  return names;
}

HealthProfileFile file_of(const ShippedProfile& shipped) {
  return read_health_profile(std::string(shipped.name), shipped.text, {});
}

bool fits_if_known(const std::string& pattern, const std::string& said) {
  return pattern.empty() || said.empty() || fits_pattern(pattern, said);
}

bool is_of_maker(const HealthProfileFile& file) {
  return !file.match.vendor.empty();
}

// A size that is rented has the ports that it names and no others; a model has its site's.
bool is_rented(const HealthProfileFile& file) {
  return is_of_maker(file) && file.match.product.empty();
}

bool is_named(const HealthProfile& profile, const std::string& port) {
  return std::ranges::any_of(
      profile.ib.ports, [&](const std::string& pattern) { return fits_pattern(pattern, port); });
}

// Nothing that is there is another maker's.
bool may_be(const HealthProfileFile& file, const NodeKind& node) {
  const HealthProfile& profile = file.profile;
  const auto is_foreign = [&](const std::string& port) { return !is_named(profile, port); };
  const bool has_foreign_port =
      is_rented(file) && node.ports && std::ranges::any_of(*node.ports, is_foreign);
  return !profile.match_gpu_name.empty() && fits_pattern(profile.match_gpu_name, node.gpu_name) &&
         fits_if_known(file.match.vendor, node.vendor) &&
         fits_if_known(file.match.product, node.product) && !has_foreign_port;
}

// How much of what is known tells that it is a maker's; of what may be.
int evidence_of_maker(const HealthProfileFile& file, const NodeKind& node) {
  const bool is_by_vendor = is_of_maker(file) && !node.vendor.empty();
  const bool is_by_product = !file.match.product.empty() && !node.product.empty();
  const bool is_by_ports = is_rented(file) && node.ports && !node.ports->empty();
  return (is_by_vendor ? 1 : 0) + (is_by_product ? 1 : 0) + (is_by_ports ? 1 : 0);
}

bool has_all_parts(const HealthProfileFile& file, const NodeKind& node) {
  const HealthProfile& profile = file.profile;
  const bool has_gpus = !profile.match_gpu_count || *profile.match_gpu_count == node.gpu_count;
  const bool lacks_ports =
      is_rented(file) && !profile.ib.ports.empty() && node.ports && node.ports->empty();
  return has_gpus && !lacks_ports;
}

Result<const ShippedProfile*> only_one(const std::vector<const ShippedProfile*>& fitting,
                                       const NodeKind& node) {
  const std::string kind = std::to_string(node.gpu_count) + " x " + quoted_text(node.gpu_name);
  if (fitting.empty()) return Error{"no health profile is shipped for " + kind};
  if (fitting.size() == 1) return fitting.front();
  std::vector<std::string_view> names;
  for (const ShippedProfile* each : fitting) names.push_back(each->name);
  return Error{"several health profiles fit " + kind + "; name one of " + joined(names)};
}

Result<const ShippedProfile*> choose_by_parts(const NodeKind& node) {
  std::vector<const ShippedProfile*> fitting;
  int most = 0;
  for (const ShippedProfile& each : shipped_profiles()) {
    const HealthProfileFile file = file_of(each);
    const int evidence = evidence_of_maker(file, node);
    const bool is_proven = !is_of_maker(file) || evidence > 0;
    const bool fits = is_proven && may_be(file, node) && has_all_parts(file, node);
    if (!fits || evidence < most) continue;
    if (evidence > most) fitting.clear();
    most = evidence;
    fitting.push_back(&each);
  }
  return only_one(fitting, node);
}

}  // namespace

HealthProfileFile read_health_profile(const std::string& path, std::string_view text,
                                      const std::vector<std::string>& checks) {
  FindingList findings;
  return read_tree(parse(path, text, 0, findings), checks, findings);
}

HealthProfile read_health_profile_over(std::string_view base, const Value& value,
                                       const std::vector<std::string>& checks) {
  const std::optional<YamlNode> below = parse("the shipped profile", base, 1, value.findings());
  const YamlNode tree = below ? merged(*below, value.node()) : value.node();
  return ProfileReader(checks).read(Value(tree, value.path(), value.findings())).profile;
}

HealthProfileFile read_health_profile_over(std::string_view base, const std::string& path,
                                           std::string_view text,
                                           const std::vector<std::string>& checks) {
  FindingList findings;
  std::optional<YamlNode> tree = parse(path, text, 0, findings);
  std::optional<YamlNode> below = parse("the shipped profile", base, 1, findings);
  if (tree && below && tree->kind == YamlNode::Kind::map) tree = merged(std::move(*below), *tree);
  return read_tree(tree, checks, findings);
}

const ShippedProfile* find_shipped_profile(std::string_view name) {
  std::string wanted = plain_name(name);
  for (const auto& [former, today] : former_names) {
    if (wanted == plain_name(former)) wanted = plain_name(today);
  }
  const auto found = std::ranges::find_if(shipped_profiles(), [&](const ShippedProfile& each) {
    return plain_name(each.name) == wanted;
  });
  return found == shipped_profiles().end() ? nullptr : &*found;
}

Result<const ShippedProfile*> choose_shipped_profile(const NodeKind& node) {
  if (const ShippedProfile* found = find_shipped_profile(node.sku)) return found;
  if (!node.gpu_name.empty()) return choose_by_parts(node);
  if (node.sku.empty()) return Error{"no health profile matches this host"};
  const std::string hint = did_you_mean(node.sku, shipped_names());
  return Error{"no health profile is shipped for " + quoted_text(node.sku) +
               (hint.empty() ? "" : "; " + hint)};
}

bool is_for_all_makers(const ShippedProfile& profile) {
  return !is_of_maker(file_of(profile));
}

const ShippedProfile* still_fitting_profile(const std::string& before, const NodeKind& node) {
  const ShippedProfile* earlier = before.empty() ? nullptr : find_shipped_profile(before);
  if (earlier == nullptr || find_shipped_profile(node.sku) != nullptr) return nullptr;
  const HealthProfileFile file = file_of(*earlier);
  const bool is_kept = file.profile.match_gpu_name.empty() || node.gpu_name.empty();
  return is_kept || may_be(file, node) ? earlier : nullptr;
}

HealthProfile read_profile_value(const Value& value, const std::vector<std::string>& checks) {
  if (value.is_scalar()) {
    const std::string name = value.text().value_or("");
    if (const ShippedProfile* found = find_shipped_profile(name)) return file_of(*found).profile;
    value.error("there is no shipped health profile " + quoted_text(name),
                did_you_mean(name, shipped_names()));
    return {};
  }
  if (!value.is_map()) {
    value.error("expected the name of a health profile, or a map");
    return {};
  }
  FindingList unsaid;  // whoever reads the whole says it
  const Value named = MapReader(Value(value.node(), value.path(), unsaid)).take("profile");
  const ShippedProfile* shipped = find_shipped_profile(named.text().value_or(""));
  if (shipped == nullptr && named.present()) {
    const std::string hint = did_you_mean(named.text().value_or(""), shipped_names());
    named.warning("no such profile is shipped: only what this file says is judged" +
                  (hint.empty() ? "" : "; " + hint));
  }
  return read_health_profile_over(shipped ? shipped->text : "", value, checks);
}

HealthProfileFile read_site_profile(const std::string& path, std::string_view text,
                                    const std::vector<std::string>& checks) {
  HealthProfileFile alone = read_health_profile(path, text, checks);
  const ShippedProfile* shipped = find_shipped_profile(alone.profile.name);
  if (shipped == nullptr) return alone;
  return read_health_profile_over(shipped->text, path, text, checks);
}

}  // namespace muster
