// Environments by name: of the cluster file, of the catalogue, of Azure's own.
#include "cli/image/image.h"

#include "cli/client/targets.h"
#include "cli/data/catalogue.h"
#include "cli/terminal/common_options.h"
#include "templates/parse_file.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

JobFile a_job_in(const std::string& environment) {
  return read_job_file("job.yml", "command: echo\nenvironment: " + environment + "\n",
                       read_options({}));
}

}  // namespace

TEST_CASE("the forms in which Azure names an environment") {
  CHECK(environment_name("azureml:a:7").name == "a");
  CHECK(environment_name("azureml:a:7").version == "7");
  CHECK(environment_name("azureml:a@latest").version == "@latest");
  CHECK(environment_name("azureml:a").version.empty());
  const auto registry = environment_name("azureml://registries/azureml/environments/b/versions/3");
  CHECK(registry.name == "b");
  CHECK(registry.version == "3");
  CHECK(registry.registry == "azureml");
  const auto label = environment_name("azureml://registries/azureml/environments/b/labels/latest");
  CHECK(label.version == "@latest");
  const auto workspace = environment_name(
      "azureml:/subscriptions/s/resourceGroups/g/providers/p/workspaces/w/environments/c/versions/"
      "2");
  CHECK(workspace.name == "c");
  CHECK(workspace.version == "2");
}

TEST_CASE("names that Azure offers are images of its registry") {
  CHECK(curated_image(environment_name("azureml:AzureML-acpt-pytorch-2.8-cuda12.6:4")) ==
        "mcr.microsoft.com/azureml/curated/acpt-pytorch-2.8-cuda12.6:4");
  CHECK(curated_image(environment_name("azureml:AzureML-PyTorch-1.6-GPU@latest")) ==
        "mcr.microsoft.com/azureml/curated/pytorch-1.6-gpu:latest");
  CHECK(curated_image(environment_name(
            "azureml://registries/azureml/environments/sklearn-1.5/labels/latest")) ==
        "mcr.microsoft.com/azureml/curated/sklearn-1.5:latest");
  CHECK(curated_image(environment_name("azureml:mine:1")).empty());
  CHECK(curated_image(environment_name("azureml://registries/ours/environments/b/versions/3"))
            .empty());
}

TEST_CASE("a name is what the cluster file says, else the catalogue, else Azure's") {
  const Folder folder;
  const Home home{folder.path()};
  const Catalogue catalogue(home, Catalogue::Kind::environment);
  REQUIRE(catalogue.add("kept", {}, "name: kept\nimage: lab/kept:1\n"));
  REQUIRE(catalogue.add("AzureML-x", {}, "name: AzureML-x\nimage: lab/x:1\n"));
  ImageSettings images;
  images.environments = {
      {"kept:9", "lab/nine"}, {"ACPT_*", "host"}, {"two", "lab/any"}, {"two:1", "lab/one"}};
  const auto image_of = [&](const std::string& reference) {
    JobFile job = a_job_in(reference);
    CHECK(resolve_environment(job, images, home).empty());
    return job.spec.environment.image;
  };
  CHECK(image_of("azureml:kept:9") == "lab/nine");
  CHECK(image_of("azureml:two:1") == "lab/one");
  CHECK(image_of("azureml:two:2") == "lab/any");
  CHECK(image_of("azureml:kept:1") == "lab/kept:1");
  // What others call by the same name in a registry of theirs.
  CHECK(image_of("azureml://registries/ours/environments/kept/versions/1").empty());
  CHECK(image_of("azureml:kept@latest") == "lab/kept:1");
  CHECK(image_of("azureml:AzureML-x") == "lab/x:1");
  CHECK(image_of("azureml:AzureML-y:2") == "mcr.microsoft.com/azureml/curated/y:2");
  CHECK(image_of("azureml:host").empty());
  JobFile job = a_job_in("azureml:ACPT_Nebula:1");
  CHECK(resolve_environment(job, images, home).empty());
  CHECK(job.spec.environment.reference == "azureml:host");
}

TEST_CASE("a site may refuse names that mean nothing here") {
  const Folder folder;
  JobFile job = a_job_in("azureml:nobody:1");
  CHECK(resolve_environment(job, {}, Home{folder.path()}).empty());
  ImageSettings images;
  images.refuses_unknown_environments = true;
  const auto findings = resolve_environment(job, images, Home{folder.path()});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].severity == Severity::error);
}

TEST_CASE("an image that is built begins with images that the site allows") {
  const Folder folder;
  folder.append("Dockerfile", "FROM 127.0.0.1:1/tools:1 AS tools\nFROM lab/base:1\n");
  EnvironmentSpec environment;
  environment.build_path = folder.path().string();
  environment.dockerfile_path = "Dockerfile";
  ImageSettings images;
  images.allow = {"docker.io/lab/*", "lab/*"};
  std::string said;
  try {
    plan_build(environment, images, {});
  } catch (const VerbEnd& end) {
    said = end.what();
    CHECK(end.exit_code == 90);
  }
  CHECK_THAT(said, ContainsSubstring("FROM 127.0.0.1:1/tools:1 is not allowed"));
}

TEST_CASE("an environment that is kept has its conda file in it and its paths whole") {
  const Folder folder;
  folder.append("conda.yml", "name: e\ndependencies: [python=3.12]\n");
  folder.append("env.yml", "name: e\nimage: lab/base:1\nconda_file: conda.yml\n");
  const std::string path = (folder.path() / "env.yml").string();
  JobFile file =
      read_job_file(path, "name: e\nimage: lab/base:1\nconda_file: conda.yml\n", read_options({}));
  REQUIRE(file.kind == FileKind::environment);
  CHECK(file.spec.environment.conda_file == (folder.path() / "conda.yml").string());
  file.spec.environment.conda_file = "name: e\ndependencies: [python=3.12]\n";
  const auto again = read_job_file("e.yml", environment_text(file), read_options({}));
  CHECK(again.findings.empty());
  CHECK(again.spec.environment.conda_file == "name: e\ndependencies: [python=3.12]\n");
  CHECK(again.spec.environment.image == "lab/base:1");
}
