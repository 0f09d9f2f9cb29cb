#include "cli/data/outputs.h"

#include "cli/data/catalogue.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "launcher/data/upload.h"
#include "templates/resource/data_asset.h"

namespace muster {
namespace {

// The version by which this very output is registered already; empty: by none.
std::string registered_as(const Catalogue& catalogue, const std::string& name,
                          const std::string& text) {
  for (const CatalogueEntry& entry : catalogue.versions(name)) {
    if (entry.text == text) return entry.version;
  }
  return {};
}

Status register_output(const Home& home, const JobId& job, const JobOutput& output) {
  const Catalogue catalogue(home, Catalogue::Kind::data);
  DataAsset asset;
  asset.name = output.asset_name;
  asset.type = output.place.is_file ? DataType::uri_file : DataType::uri_folder;
  asset.description = "output " + output.output + " of job " + job.value;
  asset.path =
      output.uri.empty() ? "azureml://jobs/" + job.value + "/outputs/" + output.output : output.uri;
  const std::string text = data_asset_text(asset);
  if (!registered_as(catalogue, asset.name, text).empty()) return Done{};
  const auto version =
      output.asset_version.empty() ? std::nullopt : std::optional(output.asset_version);
  const auto added = catalogue.add(asset.name, version, text);
  return added ? Status(Done{}) : added.error();
}

}  // namespace

Status finish_outputs(const Home& home, const JobId& job, bool registers) {
  const auto data = load_job_data(home.job(job));
  if (!data) return data.error();
  JobData in_stores = *data;
  std::erase_if(in_stores.outputs, [](const JobOutput& output) { return output.uri.empty(); });
  const Status uploaded =
      upload_outputs(home.root, home.outputs(job), in_stores, "the submitting machine");
  if (!uploaded || !registers) return uploaded;
  for (const JobOutput& output : data->outputs) {
    if (output.asset_name.empty()) continue;
    if (auto done = register_output(home, job, output); !done) return done;
  }
  return Done{};
}

int upload_process(const Home& home, const JobId& job, bool registers) {
  const Status done = finish_outputs(home, job, registers);
  return done ? 0 : print_error(done.error().message, plain_failure, {});
}

}  // namespace muster
