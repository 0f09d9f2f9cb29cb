// `environment`: a name, an inline image, or a file read in place.
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/job/command_job.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

std::string existing_path(const Value& value, Reading& reading, OnDisk wanted) {
  const auto text = value.text();
  if (!text) return "";
  if (value.is_to_be_replaced(*text, "a path")) return "";
  const auto form = path_form(*text);
  if (!form || form->kind != PathKind::local) return *text;
  const std::string path = Reading::local_path(value, form->path);
  const bool checked = static_cast<bool>(reading.options.files.kind_of);
  if (checked && reading.options.files.kind_of(path) != wanted) {
    value.error(std::string("there is no ") + (wanted == OnDisk::file ? "file " : "directory ") +
                quoted_text(path));
  }
  return path;
}

void read_build(const Value& value, Reading& reading, EnvironmentSpec& spec) {
  if (!value.present()) return;
  MapReader build(value);
  const Value old_path = build.take("local_path");
  const Value path = build.take("path");
  if (old_path.given()) old_path.note("deprecated; write 'build.path'");
  if (value.is_map() && !path.present() && !old_path.present()) value.error("'path' is required");
  spec.build_path = existing_path(path.given() ? path : old_path, reading, OnDisk::directory);
  spec.dockerfile_path = build.take("dockerfile_path").text().value_or("Dockerfile");
  build.finish();
}

void read_inline(const Value& value, Reading& reading, EnvironmentSpec& spec) {
  MapReader map(value);
  const Value image = map.take("image");
  if (const auto text = image.text()) {
    spec.image = *text;
    image.is_to_be_replaced(*text, "an image");
  }
  const Value conda = map.take("conda_file");
  const bool is_text = conda.is_scalar() && mentions(conda.node().text, "\n");
  if (conda.is_map()) spec.conda_file = write_yaml(conda.node());
  if (is_text) spec.conda_file = conda.node().text;
  if (!conda.is_map() && !is_text) spec.conda_file = existing_path(conda, reading, OnDisk::file);
  const Value build = map.take("build");
  read_build(build, reading, spec);
  const Value os_type = map.take("os_type");
  if (const auto type = os_type.word({"linux", "windows"}); type == "windows") {
    os_type.error("windows environments cannot run here");
  }
  if (value.is_map() && !image.present() && !build.present() && !conda.present()) {
    value.error("expected 'image' or 'build'");
  }
  if (image.present() && build.present()) build.error("expected 'image' or 'build', not both");
  map.ignore({"name", "version", "inference_config"}, "ignored in an inline environment");
  ignore_asset_keys(map);
  for (const char* key : {"$schema", "type", "description", "tags", "properties"}) map.take(key);
  map.finish();
}

void read_reference(const Value& value, const std::string& text, Reading& reading,
                    EnvironmentSpec& spec) {
  if (value.is_to_be_replaced(text, "an environment")) return;
  if (text.starts_with("file:")) {
    const auto file = reading.load(value, text.substr(5));
    if (file && !file->is_map()) value.error(quoted_text(text) + " does not hold an environment");
    if (file && file->is_map()) read_inline(*file, reading, spec);
    return;
  }
  if (std::string asset = asset_of_resource_id(text); !asset.empty()) {
    spec.reference = std::move(asset);
    return;
  }
  spec.reference = text;
  const bool registry = text.starts_with("azureml://registries/");
  if (registry || is_asset_reference(text)) return;
  if (text.find("/environments/") != std::string::npos && text.starts_with("azureml:/")) return;
  value.error(
      "expected azureml:<name>[:<version>|@<label>], file:<path> or a map with 'image', "
      "got " +
          quoted_text(text),
      is_asset_reference("azureml:" + text) ? "did you mean 'azureml:" + text + "'?" : "");
}

}  // namespace

void ignore_asset_keys(MapReader& map) {
  map.ignore({"datastore", "id", "auto_delete_setting", "creation_context", "latest_version",
              "intellectual_property"},
             "Azure ML's own; ignored");
}

void read_environment(const Value& value, Reading& reading, EnvironmentSpec& spec) {
  if (!value.present()) return;
  if (value.is_map()) {
    read_inline(value, reading, spec);
  } else if (const auto text = value.text()) {
    read_reference(value, *text, reading, spec);
  }
}

}  // namespace muster
