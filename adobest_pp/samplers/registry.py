"""Samplers, diffusions and gradient estimators by name: ours, and those that you register.

A sampler is what `sample` draws with: a function, a PyMC step class, or a name. A diffusion and a gradient estimator
are the two pieces of ``"sgld"``: each is a named tuple, which builds itself, and a compiled function. ``register_…``
gives any of them a name; an entry point of the group ``adobest_pp.samplers``, ``.diffusions`` or ``.gradients`` may
name the module that registers it. An unknown name raises ValueError and lists the known ones. No piece ever replaces
another.

A name that is read from a file imports nothing (`Registry.is_known`), as with mechanisms.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from numpy.typing import NDArray

from adobest_pp._text import brief
from adobest_pp._types import Floats


class Registry[E: Sampler | LangevinPiece]:
    """Entries by name: ours, which are imported on first use, and those of others.

    Parameters
    ----------
    kind : str
        What the entries are: ``"sampler"``, ``"diffusion"`` or ``"gradient"``. Errors show it.
    homes : mapping
        The module in `adobest_pp.samplers` that registers each of our names.
    """

    def __init__(self, kind: str, homes: Mapping[str, str]) -> None:
        self.kind = kind
        self._homes = {name: f"adobest_pp.samplers.{home}" for name, home in homes.items()}
        self._entries: dict[str, E] = {}

    def add(self, entry: E) -> None:
        """Add an entry, or raise ValueError if another module has taken its name."""
        before = self._entries.get(entry.name)
        owner = self._homes.get(entry.name) or (entry.module if before is None else before.module)
        if owner != entry.module:
            raise ValueError(f"{self.kind} must have a name of its own, got {brief(entry.name)}, which is taken")
        self._entries[entry.name] = entry

    def names(self) -> list[str]:
        """Return all known names: ours, registered ones, and those of entry points."""
        points = (point.name for point in entry_points(group=f"adobest_pp.{self.kind}s"))
        return list(dict.fromkeys([*self._homes, *self._entries, *points]))

    def is_known(self, name: object) -> bool:
        """Tell whether a name is ours or registered. Nothing is imported: the name may come from a file."""
        return isinstance(name, str) and (name in self._homes or name in self._entries)

    def entries(self) -> list[E]:
        """Return the entries that are loaded so far."""
        return [*self._entries.values()]

    def find(self, name: object) -> E:
        """Return the entry of a name that a person typed, or raise ValueError. This may import a module."""
        if isinstance(name, str) and name not in self._entries:
            if name in self._homes:
                import_module(self._homes[name])
            else:
                for point in entry_points(group=f"adobest_pp.{self.kind}s"):
                    if point.name == name:
                        point.load()
        if not isinstance(name, str) or name not in self._entries:
            raise ValueError(f"{self.kind} must be one of {', '.join(map(repr, self.names()))}, got {brief(name)}")
        return self._entries[name]


# Samplers.


class Drawn(NamedTuple):
    """What a sampler may return in place of an array or a tree.

    Attributes
    ----------
    variables : mapping
        ``theta`` of shape (chain, draw, K), and any others of shape (chain, draw).
    stats : mapping
        Sampler stats of shape (chain, draw).
    attributes : mapping
        What to record with the run.
    """

    variables: Mapping[str, Floats]
    stats: Mapping[str, NDArray[Any]] = {}
    attributes: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Sampler:
    """A sampler as `sample` calls it; make one by `register_sampler` or `resolve`.

    Attributes
    ----------
    name : str
        The name that its draws are recorded under.
    source : function or PyMC step class
        A function of (responses, prior, draws, tune, chains, seed), and of any options by name. `prior` is an array of
        shape (K,), or ``"learned"``. It returns θ of shape (chain, draw, K), a tree with ``posterior/theta``, or
        `Drawn`. A step class moves the variables of `frequency_model(responses, prior)`. A function that also has the
        argument `covariates` (a step class needs none) takes a regression: `prior` is then the sd of the normal prior
        of the coefficients of `regression_model`, and it returns ``coefficient`` of shape (chain, draw, term, contrast)
        in place of θ. `diagnostics.grade` asks for that.
    learned, least_tune, defaults
        As in `register_sampler`.
    """

    name: str
    source: Callable[..., Any]
    learned: bool = False
    least_tune: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """Where it is defined."""
        return str(getattr(self.source, "__module__", ""))

    @property
    def is_ours(self) -> bool:
        """Whether it is a part of adobest_pp."""
        return self.module.startswith("adobest_pp.")

    @functools.cached_property
    def options(self) -> frozenset[str] | None:
        """The names of its options, besides the six arguments; None where it takes any."""
        if isinstance(self.source, type):
            return None
        parameters = [*inspect.signature(self.source).parameters.values()]
        if any(each.kind is each.VAR_KEYWORD for each in parameters):
            return None
        by_place = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY][: len(ARGUMENTS)]
        return frozenset(each.name for each in parameters if each.name not in by_place)

    @property
    def takes_covariates(self) -> bool:
        """Whether it takes a regression."""
        return isinstance(self.source, type) or "covariates" in inspect.signature(self.source).parameters

    @property
    def shows_progress(self) -> bool:
        """Whether it has the option `progressbar`."""
        return isinstance(self.source, type) or "progressbar" in inspect.signature(self.source).parameters

    def draw(self, *arguments: Any, **options: Any) -> Any:
        """Return the draws for the six `ARGUMENTS`, in their order, and options."""
        given = {**self.defaults, **options}
        if isinstance(self.source, type):
            return _draw_by_steps(self.source, *arguments, **given)
        return self.source(*arguments, **given)


# What every sampler is called with, in this order.
ARGUMENTS = ("responses", "prior", "draws", "tune", "chains", "seed")

# Published samplers that differ from `sgld` in one piece: a diffusion, or a gradient.
_OWN_DIFFUSION = ("skew_reflected", "sghmc", "sgnht", "barker", "amagold")
LANGEVIN: dict[str, dict[str, str]] = {
    "svrg": {"gradient": "svrg"},
    **{name: {"diffusion": name} for name in _OWN_DIFFUSION},
}
SAMPLERS: Registry[Sampler] = Registry(
    "sampler",
    {"nuts": "nuts", "gibbs": "gibbs", "sgld": "sgld.loop", "sgld_cv": "sgld_cv.sampler", "blocks": "blocks"}
    | dict.fromkeys(LANGEVIN, "sgld.loop"),
)


def register_sampler[F: Callable[..., Any]](
    name: str, *, learned: bool = False, least_tune: int = 0, defaults: Mapping[str, Any] | None = None
) -> Callable[[F], F]:
    """Give a sampler a name; use as a decorator of a function or of a PyMC step class.

    Parameters
    ----------
    name : str
        The name by which `sample`, `compare`, `calibration`, studies and commands find it.
    learned : bool, default False
        Whether it takes ``prior="learned"``.
    least_tune : int, default 0
        The smallest number of tuning draws that it needs.
    defaults : mapping, optional
        Options that it is called with, unless `sample` is given others.

    Examples
    --------
    >>> import numpy as np
    >>> import adobest_pp as ad
    >>> @ad.samplers.register_sampler("prior_draws")
    ... def prior_draws(responses, prior, draws, tune, chains, seed):
    ...     return np.random.default_rng(seed).dirichlet(prior, size=(chains, draws))
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> tree = ad.sample(responses, "prior_draws", draws=100, random_seed=1)
    >>> tree.attrs["sampler"], dict(tree.posterior.theta.sizes)
    ('prior_draws', {'chain': 4, 'draw': 100, 'category': 2})
    """

    def register(sampler: F) -> F:
        SAMPLERS.add(_made(name, sampler, learned=learned, least_tune=least_tune, defaults=defaults or {}))
        return sampler

    return register


def resolve(sampler: Any) -> Sampler:
    """Return the `Sampler` for anything that `sample` takes as `sampler`.

    Other functions that take a sampler (`compare`, `calibration`, `grade`, studies) call this once, use ``.name`` as
    the label of its draws, and pass the result on to `sample`.

    Parameters
    ----------
    sampler : str, function, PyMC step class or Sampler
        A name that is ours, registered, or of an entry point; ``"module:name"``, which is imported, so never pass a
        text that was read from a file; a function, as in `Sampler`; or a step class, which moves the variables of
        `frequency_model(responses, prior)` (of its surrogate, if the class has ``surrogate = True``).

    Returns
    -------
    Sampler
        Its name is that in the registry, or the ``__name__`` of the function or class, which must not be taken.
    """
    if isinstance(sampler, Sampler):
        return sampler
    if isinstance(sampler, str) and ":" in sampler:
        module, _, attribute = sampler.partition(":")
        try:
            sampler = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, TypeError, ValueError) as problem:
            raise ValueError(f"sampler must be one that can be imported, got {brief(sampler)}: {problem}") from None
    if isinstance(sampler, str) or not callable(sampler):
        return SAMPLERS.find(sampler)
    for known in SAMPLERS.entries():
        if known.source is sampler:
            return known
    function = sampler.func if isinstance(sampler, functools.partial) else sampler
    made = _made(getattr(function, "__name__", type(function).__name__), sampler)
    if SAMPLERS.is_known(made.name):
        raise ValueError(f"sampler must have a name of its own, got one named {brief(made.name)}, which is taken")
    return made


def _made(name: str, source: Any, **settings: Any) -> Sampler:
    _check_name(name)
    is_step = isinstance(source, type) and hasattr(source, "stats_dtypes_shapes")
    if not is_step and (isinstance(source, type) or not callable(source)):
        raise ValueError(f"sampler must be a function or a PyMC step class, got {brief(source)}")
    return Sampler(name, source, **settings)


def _check_name(name: Any) -> None:
    """Raise ValueError for a name that `Registry.find` could not find."""
    if not isinstance(name, str) or not name or ":" in name:
        raise ValueError(f"name must be a text without a colon, got {brief(name)}")


def _draw_by_steps(
    step_class: Any,
    responses: Any,
    prior: Any,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    progressbar: bool = False,
    covariates: Any = None,
    **options: Any,
) -> Any:
    """Return a tree of draws by a PyMC step class, which takes the other options."""
    import pymc as pm

    from adobest_pp.model.frequency import frequency_model
    from adobest_pp.model.regression import regression_model

    if covariates is None:
        model = frequency_model(responses, prior, surrogate=getattr(step_class, "surrogate", False))
    else:
        model = regression_model(responses, covariates, prior)
    with model:
        step = step_class(model.free_RVs, **options)
        sizes: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "cores": 1}
        tree = pm.sample(
            step=step, random_seed=seed, progressbar=progressbar, compute_convergence_checks=False, **sizes
        )
    wanted = [name for name in ("theta", "concentration", "coefficient") if name in tree["posterior"].data_vars]
    tree["posterior"] = tree["posterior"].to_dataset()[wanted]
    return tree


# The pieces of SGLD.


@dataclass(frozen=True)
class LangevinPiece:
    """A piece of SGLD: a named tuple that builds itself, and its compiled function.

    Attributes
    ----------
    name : str
        The name that runs record.
    kind : type
        The class of the tuple. It has a class method ``build``, which takes the run (`Langevin`) and, for a gradient,
        the rows of evidence in the batch of each update, of shape (T, m). Arrays that a piece carries from update to
        update are in the field ``memory``.
    function : compiled function
        For a diffusion, ``advance(diffusion, rng, phi, slope, step, noise)`` moves φ along the gradient in `slope`, and
        returns how many coordinates were reflected, or −1 if the step is not finite and φ stays. For a gradient,
        ``add(gradient, update, phi, slope)`` adds its estimate of ∂ ln P(answers | φ/Σφ)/∂φ to `slope`.
    at_mode : bool
        Whether it needs an anchor near the mode, ``run.mode``; chains then start there.
    unit_steps : bool
        For a diffusion: whether its steps are in units in which the posterior has a width of about one. Otherwise the
        default steps are the paper's, 0.5/n.
    floor : compiled function, optional
        For a diffusion of φ itself under its Gamma prior: the smallest φ at which the slope of that prior is taken, as
        a function of the step. `slope` then includes the slope of the prior. Other diffusions add the prior themselves.
    nonnegative : bool
        For a diffusion: whether it needs estimates of Σ g/h that are never negative. For a gradient: whether its
        estimates never are.
    """

    name: str
    kind: type[Any]
    function: Any
    at_mode: bool = False
    unit_steps: bool = False
    floor: Any = None
    nonnegative: bool = False

    @property
    def module(self) -> str:
        """Where it is defined."""
        return self.kind.__module__

    def build(self, *arguments: Any) -> Any:
        """Return the tuple for a run, or raise TypeError if its class is not the registered one."""
        made = self.kind.build(*arguments)
        if type(made) is not self.kind:
            raise TypeError(f"build of {self.name!r} must return a {self.kind.__name__}, got {brief(made)}")
        return made


_OTHERS = ("preconditioned", "log_ratio", "cox_ingersoll_ross", "mirrored", *_OWN_DIFFUSION)
DIFFUSIONS: Registry[LangevinPiece] = Registry(
    "diffusion", {"reflected": "sgld.loop"} | dict.fromkeys(_OTHERS, "sgld.diffusions")
)
GRADIENTS: Registry[LangevinPiece] = Registry(
    "gradient", {"minibatch": "sgld.loop"} | dict.fromkeys(("control_variates", "full", "svrg"), "sgld.gradients")
)
# The piece of each class of tuples, by which the compiler finds its function.
PIECES: dict[type[Any], LangevinPiece] = {}


def register_diffusion[T: type[Any]](
    name: str,
    *,
    advance: Any,
    at_mode: bool = False,
    unit_steps: bool = False,
    floor: Any = None,
    nonnegative: bool = False,
) -> Callable[[T], T]:
    """Give a diffusion of SGLD a name; use as a decorator of the class of its tuples. See `LangevinPiece`."""
    lowest = None if floor is None else _compiled(floor)
    settings = {"at_mode": at_mode, "unit_steps": unit_steps, "floor": lowest, "nonnegative": nonnegative}
    return _registering(DIFFUSIONS, name, advance, **settings)


def register_gradient[T: type[Any]](
    name: str, *, add: Any, at_mode: bool = False, nonnegative: bool = False
) -> Callable[[T], T]:
    """Give a gradient of SGLD a name; use as a decorator of the class of its tuples. See `LangevinPiece`."""
    return _registering(GRADIENTS, name, add, at_mode=at_mode, nonnegative=nonnegative)


def _registering[T: type[Any]](
    registry: Registry[LangevinPiece], name: str, function: Any, **settings: Any
) -> Callable[[T], T]:
    _check_name(name)

    def register(kind: T) -> T:
        if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
            raise ValueError(f"{registry.kind} {name!r} must be a named tuple, got {brief(kind)}")
        if not hasattr(kind, "build"):
            raise ValueError(f"{registry.kind} {name!r} must have a class method build, got none")
        if kind in PIECES:
            raise ValueError(
                f"{registry.kind} {name!r} must have a class of its own, got that of {PIECES[kind].name!r}"
            )
        piece = LangevinPiece(name, kind, _compiled(function), **settings)
        registry.add(piece)
        PIECES[kind] = piece
        return kind

    return register


def _compiled(function: Any) -> Any:
    """Return a function compiled by Numba, if it is not yet."""
    from numba import njit
    from numba.extending import is_jitted

    return function if is_jitted(function) else njit(function)
