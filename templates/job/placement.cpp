// Where a job runs and for how long: `compute`, `resources`, `limits`, `queue_settings`,
// `identity`.
#include <charconv>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

// `<n>[b|k|m|g]` with n > 0.
bool is_memory_size(std::string_view text) {
  double size = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), size, std::chars_format::fixed);
  if (error != std::errc{} || !(size > 0)) return false;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  return unit.empty() ||
         (unit.size() == 1 && std::string_view("bkmgBKMG").find(unit) != std::string_view::npos);
}

// A text is split as a shell does; an item of a list is one word already.
std::string as_one_word(const Value& docker_args, const std::string& text) {
  const bool is_split = docker_args.is_list() && !is_word_of(text, "_-./:=,@+");
  return is_split ? "'" + replaced(text, "'", "'\\''") + "'" : text;
}

// What `compute` names: the bare target, empty for the default one.
std::string target_name(const Value& value, std::string name) {
  if (name.starts_with("azureml:")) name.erase(0, 8);
  if (name.starts_with("/subscriptions/")) name = file_name_of(name);
  if (folded(name) == "serverless") {
    value.note("'serverless' is the default target here");
    return "";
  }
  if (name.empty()) value.error("expected the name of a target");
  value.is_to_be_replaced(name, "a target");
  return name;
}

void read_instance_count(const Value& value, JobSpec& spec) {
  const auto count = value.integer(1, most_nodes);
  if (!count) return;
  spec.instance_count = *count;
  spec.muster.nodes_min = *count;
  spec.muster.nodes_max = *count;
}

// Azure writes `UserIdentity` where it shows a job.
std::optional<std::string> identity_type(const Value& type) {
  const std::vector<std::string> words = {"user_identity", "managed", "managed_identity",
                                          "aml_token"};
  for (const std::string& word : words) {
    std::string joint = word;
    std::erase(joint, '_');
    if (type.is_scalar() && folded(type.node().text) == joint) return word;
  }
  return type.word(words);
}

}  // namespace

void read_compute(const Value& value, JobSpec& spec) {
  if (!value.is_map()) {
    if (const auto name = value.text()) spec.compute = target_name(value, *name);
    return;
  }
  value.note("deprecated; write 'compute: <target>' and 'resources.instance_count'");
  MapReader map(value);
  const Value target = map.take("target");
  if (const auto name = target.text()) spec.compute = target_name(target, *name);
  read_instance_count(map.take("instance_count"), spec);
  map.finish();
}

void read_resources(const Value& value, JobSpec& spec) {
  spec.shm_size = "2g";
  MapReader map(value);
  read_instance_count(map.take("instance_count"), spec);
  store(spec.muster.nodes_max, map.take("max_instance_count").integer(1, most_nodes));
  for (std::string& type : map.take("instance_type").texts()) {
    spec.instance_types.push_back(std::move(type));
  }
  const Value shm_size = map.take("shm_size");
  if (const auto text = shm_size.text()) {
    spec.shm_size = *text;
    if (!is_memory_size(*text)) {
      shm_size.error("expected a size above 0 such as 2g (b, k, m or g), got " +
                     quoted_text(*text));
    }
  }
  const Value docker_args = map.take("docker_args");
  for (const std::string& words : docker_args.texts()) {
    spec.docker_args += (spec.docker_args.empty() ? "" : " ") + as_one_word(docker_args, words);
  }
  map.ignore({"locations", "properties"}, "has no meaning here; ignored");
  map.finish();
}

void read_limits(const Value& value, JobSpec& spec) {
  MapReader map(value);
  const Value timeout = map.take("timeout");
  if (const auto duration = timeout.duration()) {
    spec.timeout = std::chrono::duration_cast<Seconds>(*duration);
    if (*duration < Seconds{1}) timeout.error("expected 1 second or more");
  }
  const Value minutes = map.take("timeout_minutes");
  if (const auto count = minutes.integer(1, 10 * 366 * 24 * 60)) {
    minutes.note("deprecated; write 'limits.timeout' in seconds");
    if (!timeout.given()) spec.timeout = Seconds{*count * 60LL};
  }
  map.finish();
}

void read_queue_settings(const Value& value, JobSpec& spec) {
  MapReader map(value);
  const Value tier = map.take("job_tier");
  const auto word = tier.is_scalar() && folded(tier.node().text) == "null"
                        ? std::optional<std::string>()
                        : tier.word({"spot", "basic", "standard", "premium"});
  if (word) {
    spec.recorded["queue_settings.job_tier"] = *word;
    spec.muster.preemptible = *word == "spot";
    if (*word != "spot") tier.note("recorded; only 'spot' has a meaning here");
  }
  store(spec.muster.priority,
        map.take("priority").choice<int>({{"low", -100}, {"medium", 0}, {"high", 100}}));
  map.finish();
}

void read_identity(const Value& value, JobSpec& spec) {
  MapReader map(value);
  const Value type = map.take("type");
  if (const auto word = identity_type(type)) spec.recorded["identity.type"] = *word;
  for (const char* key : {"client_id", "object_id", "msi_resource_id"}) {
    if (const auto text = map.take(key).text()) {
      spec.recorded[std::string("identity.") + key] = *text;
    }
  }
  if (value.is_map()) value.note("recorded; data is read as the submitting user");
  map.finish();
}

}  // namespace muster
