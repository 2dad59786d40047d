//! An operator whose code comes from disk is the operator that was compiled.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use weir_operator::{CacheUse, CompileCache, Component, Engine, Limits};

use crate::recorder::{KEYED, NOW, Recorder, guest, opened_in, probe, probe_description};

fn load(cache: CompileCache) -> Component {
    Engine::with_cache(cache)
        .unwrap()
        .load(&guest("weir_guest_probe"), "probe.wasm")
        .unwrap()
}

/// What the environment sees of a call that goes well and of one that traps.
fn behaviour(component: &Component) -> Vec<String> {
    let mut seen = Vec::new();
    for config in ["process effects", "process effects-then-trap"] {
        let mut instance = opened_in(component, config, Limits::default(), Recorder::default());
        let returned = instance.process(KEYED, NOW);
        seen.push(format!("{config}: {returned:?}"));
        seen.extend(instance.environment().take());
    }
    seen
}

#[test]
fn what_is_loaded_from_the_cache_is_what_was_compiled() {
    let dir = tempfile::tempdir().unwrap();
    let cache = || CompileCache::new(dir.path().join("cache"));
    let compiled = load(cache());
    assert!(matches!(compiled.cache_use(), CacheUse::Stored));
    let cached = load(cache());
    assert!(matches!(cached.cache_use(), CacheUse::Hit));
    assert!(matches!(probe().cache_use(), CacheUse::None));
    assert_eq!(cached.sha256(), probe().sha256());
    assert_eq!(cached.interface(), probe().interface());
    assert_eq!(
        cached.describe(None, &Limits::default()).unwrap(),
        *probe_description()
    );
    assert_eq!(behaviour(&cached), behaviour(probe()));
    assert!(behaviour(&cached).len() > 4, "{:?}", behaviour(&cached));
}

#[test]
fn a_cache_that_cannot_be_used_fails_no_load() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let component = load(CompileCache::new(dir.path()));
    let CacheUse::Failed(error) = component.cache_use() else {
        panic!("{:?}", component.cache_use())
    };
    assert!(error.to_string().ends_with("(mode 0777)"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(behaviour(&component), behaviour(probe()));
}
